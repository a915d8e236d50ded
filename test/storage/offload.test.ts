/**
 * Sealed capture files in a bucket: sent, read as before, erased, removed by age. offload-kill.long.test.ts ends
 * processes at each step.
 */
import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureExpiry } from '../../src/storage/capture/expiry.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import type { LiveFile } from '../../src/storage/capture/live-file.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { CaptureTextSources } from '../../src/storage/capture/text-sources.ts';
import { eraseCaptured } from '../../src/storage/erasure.ts';
import { readNote } from '../../src/storage/offload/offload-note.ts';
import { fetchCaptures } from '../../src/storage/offload/remote-captures.ts';
import { BUCKET, S3_ENVIRONMENT, startFakeS3 } from '../fixtures/s3-server.ts';
import { makeExchange } from './captured.ts';
import { eraseGone, readAll } from './erasing.ts';
import { makeFolder } from './folder.ts';
import {
  AT_ONCE,
  expectNoOthers,
  fillWithImages,
  LATER,
  listAttachments,
  listObjects,
  type Offloaded,
  open,
  passAll,
} from './offloaded.ts';

const KEY = Buffer.alloc(32, 7);
/** Random bytes, which compression leaves unchanged, so that a search finds them. */
const SECRET = randomBytes(6_000);
const SECRET_PART = SECRET.subarray(2_000, 2_032);

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

/** The objects that contain the secret. */
function findSecret({ place }: Offloaded): string[] {
  return listObjects(place).filter((name) => readFileSync(join(place, name)).includes(SECRET_PART));
}

it('sealed files leave the disk and read as before; after they were read, even without the bucket', async () => {
  const filled = await make(KEY);
  const before = await readAll(filled);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  expect(log.stats().bucket).toMatchObject({
    waiting_files: 0,
    offloaded_files: 3,
    removing: 0,
    failure: null,
  });
  await log.close();
  expectNoOthers(filled);
  expect(await readAll(filled)).toEqual(before);
  rmSync(filled.place, { recursive: true });
  expect(await readAll(filled)).toEqual(before);
});

it('a service writes its manifest again after several passes could not write it', async () => {
  const filled = await make(KEY, 1);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  // A folder with the name of the partial file lets writes fail, and not reads.
  const partial = join(filled.place, `captures/${readNote(filled.path)!.gateway}/manifest.partial`);
  mkdirSync(partial);
  for (let pass = 0; pass < 6; pass++) {
    await log.append([makeExchange({ run_id: 'keep', request_body: randomBytes(3_000) })]);
    await log.rotate();
    await expect(passAll(log)).rejects.toThrow('manifest');
  }
  rmdirSync(partial);
  await passAll(log);
  expect(log.stats().bucket).toMatchObject({ waiting_files: 0, offloaded_files: 7, failure: null });
  await log.close();
});

it('no further file goes to the bucket when none is configured any more', async () => {
  const filled = await make(KEY, 2);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  await log.close();
  const before = listObjects(filled.place);
  const { path, key } = filled;
  const without = await CaptureLog.open({ path, redact: false, data_key: key, decode: decodeExchange });
  await without.rotate();
  await passAll(without);
  await without.close();
  expect(listSealed(path)).toHaveLength(3);
  expect(readNote(path)!.files).toHaveLength(2);
  expect(listObjects(filled.place)).toEqual(before);
});

describe.each([
  ['encrypted', KEY],
  ['not encrypted', null],
])('attachments, %s', (_words, key) => {
  // The large attachment needs several packs.
  const [shared, gone, large] = [randomBytes(3_000), SECRET, randomBytes(5 << 20)] as const;

  async function fill(): Promise<Offloaded> {
    const filled = { path: join(makeFolder(), 'capture.mdb'), key, place: join(makeFolder(), 'bucket') };
    await fillWithImages(filled, [
      [
        ['keep', shared],
        ['gone', gone],
      ],
      [
        ['keep', shared],
        ['keep', large],
      ],
    ]);
    return filled;
  }

  it('leave the disk with their files, are read from the bucket, and return', {
    tags: key === null ? ['long'] : [],
  }, async () => {
    const filled = await fill();
    const before = await readAll(filled);
    expect(listAttachments(filled.path)).toHaveLength(3);
    const log = await open(filled, AT_ONCE);
    await passAll(log);
    expect(log.stats().bucket).toMatchObject({ offloaded_files: 2, failure: null });
    await log.close();
    expect(listAttachments(filled.path)).toEqual([]);
    expectNoOthers(filled);
    if (key !== null) expect(findSecret(filled)).toEqual([]);
    expect(await readAll(filled)).toEqual(before);
    const other = makeFolder();
    const place = pathToFileURL(filled.place).href;
    const [found] = await fetchCaptures({ place, gateway: null, folder: other, data_key: key });
    const there = await readAll({ path: found!.db, key });
    expect(there.size).toBe(4);
    for (const [id, text] of there) expect(before.get(id) === text, String(id)).toBe(true);
    const home = await open(filled, 'all');
    await passAll(home);
    await home.close();
    rmSync(`${filled.path}.cache`, { recursive: true });
    rmSync(filled.place, { recursive: true });
    expect(listAttachments(filled.path)).toHaveLength(3);
    expect(await readAll(filled)).toEqual(before);
  });

  it('are erased in the bucket with the exchanges that refer to them', {
    tags: key === null ? [] : ['long'],
  }, async () => {
    const filled = await fill();
    const before = await readAll(filled);
    const log = await open(filled, AT_ONCE);
    await passAll(log);
    await log.close();
    if (key === null) expect(findSecret(filled)).not.toEqual([]);
    const bytes = () => listObjects(filled.place).map((name) => statSync(join(filled.place, name)).size);
    const all = bytes().reduce((sum, size) => sum + size);
    expect(await eraseGone(filled)).toMatchObject({ attachments: 1 });
    const again = await open(filled, AT_ONCE);
    await passAll(again);
    await again.close();
    expectNoOthers(filled);
    expect(findSecret(filled)).toEqual([]);
    expect(all - bytes().reduce((sum, size) => sum + size)).toBeGreaterThan(SECRET.length);
    const after = await readAll(filled);
    for (const [id, text] of before)
      if (!text.startsWith('["gone"')) expect(after.get(id) === text, String(id)).toBe(true);
  });
});

it('attachments stay on the disk while a local file refers to them', { tags: 'long' }, async () => {
  const filled = { path: join(makeFolder(), 'capture.mdb'), key: null, place: join(makeFolder(), 'bucket') };
  await fillWithImages(filled, [[['keep', SECRET]]]);
  const log = await open(filled, LATER);
  await passAll(log);
  await log.close();
  expect(listAttachments(filled.path)).toHaveLength(1);
});

it('an erasure by credential says that the bucket cannot be read', async () => {
  const filled = await make(null);
  const log = await open(filled, AT_ONCE);
  await passAll(log);
  await log.close();
  rmSync(filled.place, { recursive: true });
  const { path, key } = filled;
  const [data_dir, target] = [join(path, '..'), { credential: 'a-credential-of-someone' }];
  await expect(
    eraseCaptured(
      { data_dir, capture_db: path, data_key: key, decode: decodeExchange, target, is_dry: false },
      () => {},
    ),
  ).rejects.toThrow(/its bodies are in a bucket and cannot be read now/);
});

it('searchable files leave the disk even if newer exchanges are not searchable yet; the search index keeps its space', {
  tags: 'long',
}, async () => {
  const filled = await make(null);
  const live = { bytes: 0 } as LiveFile;
  const measure = () => new CaptureTextSources(filled.path, null, decodeExchange, () => live).bytes();
  const before = measure();
  const log = await open(filled, AT_ONCE);
  while ((await log.tidySome(decodeExchange, 50)).done > 0);
  await log.append([makeExchange({ run_id: 'new' })]);
  await log.offloadSome();
  expect(log.stats().bucket).toMatchObject({ offloaded_files: 3 });
  await log.close();
  expect(measure()).toBeGreaterThan(before * 0.9);
});

it('local files are also in the bucket; with less space, the oldest ones leave the disk', {
  tags: 'long',
}, async () => {
  const filled = await make(null);
  const log = await open(filled, LATER);
  await passAll(log);
  expect(log.stats().bucket).toMatchObject({ waiting_files: 0, offloaded_files: 0 });
  expect(findSecret(filled).length).toBe(2);
  await log.close();
  const less = await open(filled, { bytes: 60_000 });
  await passAll(less);
  expect(less.stats().bucket).toMatchObject({ offloaded_files: 2 });
  await less.close();
  const all = await open(filled, 'all');
  await passAll(all);
  expect(all.stats().bucket).toMatchObject({ offloaded_files: 0, waiting_files: 0 });
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

it('a local file stays if its object differs from the bytes that were sent', { tags: 'long' }, async () => {
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
  expect(again.stats().bucket).toMatchObject({
    offloaded_files: 0,
    failure: expect.stringContaining('damaged'),
  });
  await again.close();
});

it('an erasure erases data in the bucket, and the rewritten files go to the bucket again', {
  tags: 'long',
}, async () => {
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
  expect(again.stats().bucket).toMatchObject({ offloaded_files: 3, removing: 0 });
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

it('data removed by age is removed from the bucket', { tags: 'long' }, async () => {
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
  ['AuthorizationHeaderMalformed', 400, /is in another region: name that region with region=/],
  ['RequestTimeTooSkewed', 403, /refuses the clock of this machine/],
])(
  'captures stay on the disk if the bucket answers %s, and the state says why in one line',
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
    expect(bucket).toMatchObject({
      waiting_files: 1,
      offloaded_files: 0,
      failure: expect.stringMatching(why),
    });
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
