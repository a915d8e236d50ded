/** Run labels and sessions that contain keys are masked, and different labels still make different runs. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { maskText } from '../../src/redaction/mask.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { MaskedLabels } from '../../src/storage/capture/masked-labels.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const KEYS = ['sk-ant-api03-Qm7Zt2Lx9Vb4Nc8Kd3Rf', 'sk-ant-api03-Hy5Wp1Gs6Ju0Ea7Xo2Ti'] as const;
const MASKED = /^job-\[redacted-[\da-f]{16}\]\/7$/;

function makePlace(): { folder: string; path: string } {
  const folder = makeFolder();
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return { folder, path: join(folder, 'capture.mdb') };
}

/** Stores an exchange for each label in a newly opened log. @returns the runs in the file */
async function store(
  path: string,
  requests: { run_id?: string | null; request_headers?: string[] }[],
  { redact = true, data_dir }: { redact?: boolean; data_dir?: string } = {},
): Promise<(string | null)[]> {
  const log = await CaptureLog.open({
    path,
    redact,
    run_headers: ['x-acme-run'],
    ...(data_dir === undefined ? {} : { data_dir }),
  });
  await log.append(
    requests.map(({ run_id = null, request_headers = [] }) =>
      makeExchange({
        run_id,
        request_headers: ['host', 'gw', ...request_headers],
        request_body: Buffer.from(
          '{"model":"m","tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"Where is it?"}]}',
        ),
        response_headers: ['content-type', 'application/json'],
        response_body: Buffer.from(
          '{"type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"Here."}]}',
        ),
      }),
    ),
  );
  while ((await log.indexSome(decodeExchange, 1_000)) > 0);
  await log.close();
  const reader = CaptureReader.open(path);
  const runs = [...reader.summaries()].map(({ run_id }) => run_id);
  await reader.close();
  return runs;
}

it('labels that differ only in their keys make different runs; the same label makes one, also after a restart', async () => {
  const { folder, path } = makePlace();
  const [a, b] = KEYS.map((key) => ({ run_id: `job-${key}/7` }));
  await store(path, [a!, b!, a!]);
  const [first, second, ...more] = await store(path, [b!, a!]);
  expect(first).toMatch(MASKED);
  expect(second).toMatch(MASKED);
  expect(second).not.toBe(first);
  expect(more).toEqual([first, second, first]);
  // The id that inspect shows may be sent as a label and means the same run.
  expect(await store(path, [{ run_id: first! }])).toEqual([first, second, first, second, first, first]);
  const stored = Buffer.concat(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name))),
  );
  for (const key of KEYS) {
    expect(stored.includes(key)).toBe(false);
    expect(stored.includes(key.slice(-8))).toBe(false);
  }
});

it('labels that repeat the passwords of their requests stay distinct with any SVC_REDACT', async () => {
  const { path } = makePlace();
  const requests = ['hunter2hunter', 'letmein2024'].map((password) => ({
    run_id: `job-${password}/7`,
    request_headers: ['authorization', `Basic ${Buffer.from(`me:${password}`).toString('base64')}`],
  }));
  const runs = await store(path, [...requests, ...requests], { redact: false });
  expect(runs).toEqual([expect.stringMatching(MASKED), expect.stringMatching(MASKED), ...runs.slice(0, 2)]);
  expect(runs[1]).not.toBe(runs[0]);
});

it.each(['x-acme-run', 'X-Claude-Code-Session-Id', 'x-session-affinity'])(
  'sessions in %s stay distinct',
  async (name) => {
    const { path } = makePlace();
    const requests = KEYS.map((key) => ({ request_headers: [name, `job-${key}/7`] }));
    const runs = await store(path, [...requests, ...requests]);
    expect(runs).toEqual([expect.stringMatching(MASKED), expect.stringMatching(MASKED), ...runs.slice(0, 2)]);
    expect(runs[1]).not.toBe(runs[0]);
  },
);

it('the secret is made once, when a label needs it, in DATA_DIR, readable only for its owner', async () => {
  const { folder, path } = makePlace();
  const data_dir = join(folder, 'data');
  const file = join(data_dir, 'secrets', 'run-labels');
  mkdirSync(data_dir);
  await store(path, [{ run_id: 'job-7' }], { data_dir });
  expect(readdirSync(data_dir)).toEqual([]);
  await store(path, [{ run_id: `job-${KEYS[0]}/7` }], { data_dir });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const secret = readFileSync(file, 'utf8');
  await store(path, [{ run_id: `job-${KEYS[1]}/7` }], { data_dir });
  expect(readFileSync(file, 'utf8')).toBe(secret);
  expect(readdirSync(join(data_dir, 'secrets'))).toEqual(['run-labels']);
});

it('labels stay distinct also if the secret cannot be stored', async () => {
  const { folder, path } = makePlace();
  const data_dir = join(folder, 'data');
  mkdirSync(join(data_dir, 'secrets'), { recursive: true });
  writeFileSync(join(data_dir, 'secrets', 'run-labels'), 'short');
  chmodSync(join(data_dir, 'secrets', 'run-labels'), 0o600);
  const [first, second, third] = await store(
    path,
    [KEYS[0], KEYS[1], KEYS[0]].map((key) => ({ run_id: `job-${key}/7` })),
    { data_dir },
  );
  expect(first).toMatch(MASKED);
  expect(second).not.toBe(first);
  expect(third).toBe(first);
});

it('each installation writes different digits, which the search for keys does not mask again', () => {
  const [first, second] = [new MaskedLabels(null), new MaskedLabels(null)];
  expect(first.tellApart('job-[redacted]', 'job-x')).not.toBe(second.tellApart('job-[redacted]', 'job-x'));
  const labels = Array.from({ length: 5_000 }, (_, i) => first.tellApart('job-[redacted]-7', `job-${i}/7`));
  expect(new Set(labels).size).toBe(labels.length);
  expect(labels.filter((label) => maskText(label) !== label)).toEqual([]);
});

it('credentials have distinct marks that do not reveal them', async () => {
  const { folder, path } = makePlace();
  const ways = [
    ['x-api-key', KEYS[0]],
    ['Authorization', `Bearer ${KEYS[0]}`],
    ['x-goog-api-key', KEYS[1]],
    ['authorization', 'AWS4-HMAC-SHA256 Credential=a/b, Signature=0123456789abcdef'],
    ['accept', '*/*'],
  ].map((request_headers) => ({ request_headers }));
  await store(path, ways, { data_dir: folder });
  await store(path, ways.slice(0, 1), { data_dir: folder });
  const reader = CaptureReader.open(path);
  const records = [...reader.exchanges()];
  const summaries = [...reader.summaries()];
  await reader.close();
  const [a, again, b, signed, none, later] = records.map(({ credential }) => credential);
  expect(a).toMatch(/^[\da-f]{12}$/);
  expect([again, later]).toEqual([a, a]);
  expect(b).toMatch(/^[\da-f]{12}$/);
  expect(b).not.toBe(a);
  expect([signed, none]).toEqual([undefined, undefined]);
  expect(summaries.map(({ credential }) => credential)).toEqual([a, a, b, undefined, undefined, a]);
  // The mark is not stored as a header of the request.
  for (const { request } of records)
    expect(request.headers.map(([name]) => name)).not.toContain(':credential');
});
