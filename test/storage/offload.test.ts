/** Sealed capture files in a bucket: sent, read as before, erased, removed by age; and processes that end at each step. */
import { randomBytes } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureExpiry } from '../../src/storage/capture/expiry.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CaptureLog, type CaptureLogOptions } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { readNote } from '../../src/storage/offload/offload-note.ts';
import { BUCKET, S3_ENVIRONMENT, startFakeS3 } from '../fixtures/s3-server.ts';
import { makeExchange } from './captured.ts';
import { eraseGone, type Filled, readAll } from './erasing.ts';
import { makeFolder } from './folder.ts';

const KEY = Buffer.alloc(32, 7);
/** Compression leaves these as they are, so a search finds them. */
const SECRET = randomBytes(6_000);
const SECRET_PART = SECRET.subarray(2_000, 2_032);

interface Offloaded extends Filled {
  /** The folder that is the bucket. */
  place: string;
}

type Keep = NonNullable<CaptureLogOptions['bucket']>['keep'];
const AT_ONCE: Keep = { age_ms: -60_000 };
/** The exchanges of the tests are some years old. */
const LATER: Keep = { age_ms: 1e13 };

function open({ path, key, place }: Offloaded, keep: Keep, fault?: CaptureLogOptions['fault']) {
  return CaptureLog.open({
    path,
    redact: false,
    data_key: key,
    decode: decodeExchange,
    has_text_index: true,
    bucket: { place: pathToFileURL(place).href, keep },
    ...(fault === undefined ? {} : { fault }),
  });
}

/** Sends what is sealed, and lets go of what may leave. */
async function passAll(log: CaptureLog): Promise<void> {
  while ((await log.tidySome(decodeExchange, 50)).done > 0);
  await log.offloadSome();
}

/** Sealed files and a live one; the run `gone` is in the first two. */
async function make(key: Buffer | null, sealed = 3): Promise<Offloaded> {
  const filled = { path: join(makeFolder(), 'capture.mdb'), key, place: join(makeFolder(), 'bucket') };
  const log = await open(filled, 'all');
  for (let file = 0; file <= sealed; file++) {
    for (const run_id of file < 2 ? ['keep', 'gone', 'gone', 'keep'] : ['keep']) {
      const body = run_id === 'gone' ? SECRET : randomBytes(3_000);
      await log.append([makeExchange({ run_id, request_body: body, response_body: Buffer.from('{}') })]);
    }
    if (file < sealed) await log.rotate();
  }
  await log.close();
  return filled;
}

function listObjects(place: string): string[] {
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(place, join(entry.parentPath, entry.name)))
    .sort();
}

/** The objects that have the secret. */
function findSecret({ place }: Offloaded): string[] {
  return listObjects(place).filter((name) => readFileSync(join(place, name)).includes(SECRET_PART));
}

/** Whether the bucket has what the note says, and nothing else. */
function expectNoOthers({ path, place }: Offloaded): void {
  const { files, gateway, removing } = readNote(path)!;
  expect(removing).toEqual([]);
  const folders = new Set(files.map(({ folder }) => folder));
  const own = [`captures/${gateway}/manifest`, `gateways/${gateway}`];
  for (const name of listObjects(place))
    if (!own.includes(name)) expect(folders).toContain(name.slice(0, name.lastIndexOf('/')));
}

it('sealed files leave the disk and read as before, also without the bucket once they were read', async () => {
  const filled = await make(KEY);
  const before = await readAll(filled);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  expect(log.stats().bucket).toMatchObject({ waiting_files: 0, away_files: 3, removing: 0, failure: null });
  await log.close();
  expectNoOthers(filled);
  expect(await readAll(filled)).toEqual(before);
  rmSync(filled.place, { recursive: true });
  expect(await readAll(filled)).toEqual(before);
});

it('what is kept here is in the bucket, too; with less room, the oldest files leave', {
  tags: 'long',
}, async () => {
  const filled = await make(null);
  const log = await open(filled, LATER);
  await passAll(log);
  expect(log.stats().bucket).toMatchObject({ waiting_files: 0, away_files: 0 });
  expect(findSecret(filled).length).toBe(2);
  await log.close();
  const less = await open(filled, { bytes: 60_000 });
  await passAll(less);
  expect(less.stats().bucket).toMatchObject({ away_files: 2 });
  await less.close();
  const all = await open(filled, 'all');
  await passAll(all);
  expect(all.stats().bucket).toMatchObject({ away_files: 0, waiting_files: 0 });
  await all.close();
});

it('without the bucket, lists are complete, and a body says why it cannot be read', async () => {
  const filled = await make(null);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  await log.close();
  rmSync(filled.place, { recursive: true });
  const [file] = listSealed(filled.path);
  const reader = CaptureReader.open(file!.path);
  expect([...reader.summaries()].map(({ run_id }) => run_id)).toEqual(['keep', 'gone', 'gone', 'keep']);
  expect(() => reader.body(1, 'request')).toThrow(
    /its bodies are in a bucket and cannot be read now: .* is missing in/,
  );
  await reader.close();
});

it('an object that is not what was sent keeps the file here', { tags: 'long' }, async () => {
  const filled = await make(null);
  const log = await open(filled, LATER);
  await passAll(log);
  await log.close();
  for (const name of listObjects(filled.place)) {
    const path = join(filled.place, name);
    const bytes = readFileSync(path);
    bytes[bytes.length - 1]! ^= 1;
    if (name.endsWith('/0')) writeFileSync(path, bytes);
  }
  const again = await open(filled, AT_ONCE);
  await expect(again.offloadSome()).rejects.toThrow(/is damaged: it is not what was sent/);
  expect(again.stats().bucket).toMatchObject({ away_files: 0, failure: expect.stringContaining('damaged') });
  await again.close();
});

it('an erasure erases what is in the bucket, and the files return there', async () => {
  const filled = await make(null);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  await log.close();
  expect(findSecret(filled).length).toBe(2);
  const before = await readAll(filled);
  await eraseGone(filled);
  expect(findSecret(filled)).toEqual([]);
  expectNoOthers(filled);
  const after = await readAll(filled);
  for (const [id, text] of before)
    if (!text.startsWith('["gone"')) expect(after.get(id) === text, String(id)).toBe(true);
  const again = await open(filled, AT_ONCE);
  await passAll(again);
  expect(again.stats().bucket).toMatchObject({ away_files: 3, removing: 0 });
  await again.close();
  expect(findSecret(filled)).toEqual([]);
  expect(await readAll(filled)).toEqual(after);
});

it('another service with a copy of the folder is refused', { tags: 'long' }, async () => {
  const filled = await make(null);
  const copy = { ...filled, path: join(makeFolder(), 'capture.mdb') };
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  await log.close();
  cpSync(join(filled.path, '..'), join(copy.path, '..'), { recursive: true });
  const other = await open(copy, AT_ONCE);
  await other.rotate();
  await passAll(other);
  await other.close();
  const first = await open(filled, AT_ONCE);
  await first.rotate();
  await expect(first.offloadSome()).rejects.toThrow(
    /another service writes captures as .*: a DATA_DIR was copied/,
  );
  await first.close();
});

it('what is removed by age is removed from the bucket', { tags: 'long' }, async () => {
  const filled = await make(null);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  const clock = { wallMs: () => Date.now() + 3 * 86_400_000 };
  const expiry = new CaptureExpiry({ path: filled.path, data_key: null, days: 1, log, clock });
  await expiry.pass();
  await log.offloadSome();
  expect(listObjects(filled.place).filter((name) => name.includes('/files/'))).toEqual([]);
  expect(readNote(filled.path)).toMatchObject({ files: [], removing: [] });
  await log.close();
});

it.each([
  ['AccessDenied', 403, /no right to s3:\w+ in s3:/],
  ['SignatureDoesNotMatch', 403, /does not accept the credentials/],
  ['AuthorizationHeaderMalformed', 400, /is in another region: name it with region=/],
  ['RequestTimeTooSkewed', 403, /refuses this machine's clock/],
])(
  'a bucket that answers %s keeps captures here, and the state says why in one line',
  { tags: 'long' },
  async (code, status, why) => {
    const filled = await make(null, 1);
    rmSync(`${filled.path}.bucket`, { force: true });
    const before = { ...process.env };
    onTestFinished(() => {
      for (const name of Object.keys(S3_ENVIRONMENT)) delete process.env[name];
      Object.assign(process.env, before);
    });
    Object.assign(process.env, S3_ENVIRONMENT);
    const endpoint = await startFakeS3(() => [
      status,
      `<Error><Code>${code}</Code><Message>it says no</Message></Error>`,
    ]);
    const log = await CaptureLog.open({
      path: filled.path,
      redact: false,
      decode: decodeExchange,
      bucket: { place: `s3://${BUCKET}?endpoint=${endpoint}`, keep: AT_ONCE },
    });
    await expect(log.offloadSome()).rejects.toThrow(why);
    const { bucket } = log.stats();
    expect(bucket).toMatchObject({ waiting_files: 1, away_files: 0, failure: expect.stringMatching(why) });
    expect(bucket!.failure).not.toContain('\n');
    await log.append([makeExchange({ run_id: 'goes on' })]);
    await log.close();
  },
);

it('a folder of captures refuses another bucket', async () => {
  const filled = await make(null, 1);
  const log = await open(filled, LATER);
  await passAll(log);
  await log.close();
  const other = { ...filled, place: makeFolder() };
  await expect(open(other, LATER)).rejects.toThrow(/^CAPTURE_BUCKET_URL names another place than file:/);
});

class Killed extends Error {}

/** Throws at the nth step for which `isMeant`. */
function killAt(
  nth: number,
  isMeant: (point: string) => boolean,
): { fault: (point: string) => void; isDone: () => boolean } {
  let count = 0;
  return {
    fault: (point) => {
      if (isMeant(point) && ++count === nth) throw new Killed();
    },
    isDone: () => count >= nth,
  };
}

it('a process that ends at any step is continued by the next', { tags: 'long' }, async () => {
  const template = await make(null, 2);
  const before = await readAll(template);
  for (let nth = 1, isMore = true; isMore; nth++) {
    const filled = {
      ...template,
      path: join(makeFolder(), 'capture.mdb'),
      place: join(makeFolder(), 'bucket'),
    };
    cpSync(join(template.path, '..'), join(filled.path, '..'), { recursive: true });
    rmSync(`${filled.path}.bucket`, { force: true });
    const kill = killAt(nth, (point) => point.startsWith('offload'));
    const log = await open(filled, AT_ONCE, kill.fault);
    await passAll(log).catch((thrown: unknown) => expect(thrown).toBeInstanceOf(Killed));
    isMore = kill.isDone();
    await log.close();
    const next = await open(filled, AT_ONCE);
    await passAll(next);
    await passAll(next);
    expect(next.stats().bucket, String(nth)).toMatchObject({ waiting_files: 0, away_files: 2, removing: 0 });
    await next.close();
    expectNoOthers(filled);
    expect(await readAll(filled), String(nth)).toEqual(before);
  }
});

it('an erasure that ends at any step is finished by the next process', { tags: 'long' }, async () => {
  const filled = await make(null, 2);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  await log.close();
  // The order stays, because the bucket cannot be read.
  renameSync(filled.place, `${filled.place}.away`);
  await expect(eraseGone(filled)).rejects.toThrow();
  renameSync(`${filled.place}.away`, filled.place);
  const ordered = makeFolder();
  cpSync(join(filled.path, '..'), join(ordered, 'data'), { recursive: true });
  cpSync(filled.place, join(ordered, 'bucket'), { recursive: true });
  // The first steps one by one, later ones with growing gaps.
  for (let nth = 1, isMore = true; isMore; nth += Math.ceil(nth / 8)) {
    for (const [from, to] of [
      ['data', join(filled.path, '..')],
      ['bucket', filled.place],
    ] as const) {
      rmSync(to, { recursive: true, force: true });
      cpSync(join(ordered, from), to, { recursive: true });
    }
    const kill = killAt(nth, (point) => point.startsWith('offload') || point === 'erase');
    const killed = await open(filled, 'all', kill.fault);
    await killed.eraseOrdered().catch((thrown: unknown) => expect(thrown).toBeInstanceOf(Killed));
    isMore = kill.isDone();
    await killed.close();
    const next = await open(filled, AT_ONCE);
    expect(await next.eraseOrdered()).toBe(isMore);
    expect(findSecret(filled), String(nth)).toEqual([]);
    await passAll(next);
    await next.close();
    expect(findSecret(filled), String(nth)).toEqual([]);
    expectNoOthers(filled);
  }
});
