/**
 * Blocks that are stored raw under load and packed later: the bodies are the same at every moment, and the files are
 * smaller at the end.
 */
import { existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { createPrng } from '../../src/std/prng.ts';
import { writeBackup } from '../../src/storage/backup.ts';
import { sealedPath } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange, readAllFiles } from './captured.ts';
import { makeFolder } from './folder.ts';

/** Makes unrelated exchanges, so that deltas do not make them smaller. */
function makeBatch(seed: number, count: number, bytes: number): CapturedExchange[] {
  const prng = createPrng(seed);
  const words = Array.from({ length: 500 }, () => prng.below(1e9).toString(36));
  const makeText = () => {
    let text = '';
    while (text.length < bytes) text += `${words[prng.below(words.length)]} `;
    return Buffer.from(text);
  };
  return Array.from({ length: count }, () =>
    makeExchange({ request_body: makeText(), response_body: makeText() }),
  );
}

function expectBodies(reader: CaptureReader, exchanges: readonly CapturedExchange[]): void {
  for (const [at, exchange] of exchanges.entries()) {
    expect(Buffer.compare(reader.body(at + 1, 'request')!, exchange.request_body) === 0).toBe(true);
    expect(Buffer.compare(reader.body(at + 1, 'response')!, exchange.response_body) === 0).toBe(true);
  }
}

it.each([
  ['many small ones', 200, 3_000],
  ['few large ones', 4, 400_000],
  ['more bytes than one write takes', 10, 500_000],
])('%s', async (_name, count, bytes) => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const exchanges = makeBatch(1, count, bytes);
  await log.append(exchanges);
  const reader = CaptureReader.open(path);
  expectBodies(reader, exchanges);

  let packed = 0;
  // Packs one block at a time, with appends and reads in between.
  for (let done = await log.packSome(0.000_001); done > 0; done = await log.packSome(0.000_001)) {
    packed += done;
    const [more] = makeBatch(100 + packed, 1, 500);
    exchanges.push(more!);
    await log.append([more!]);
  }
  expect(packed).toBeGreaterThan(2);
  expectBodies(reader, exchanges);
  reader.close();
  const fresh = CaptureReader.open(path);
  expectBodies(fresh, exchanges);
  fresh.close();

  const { sealed } = await log.rotate();
  const whole = exchanges.reduce(
    (sum, { request_body, response_body }) => sum + request_body.length + response_body.length,
    0,
  );
  expect(statSync(sealed!).size).toBeLessThan(whole * 0.75);
  await log.close();
});

it('bodies may be in any memory, even in shared memory that is reused after they are stored', {
  tags: 'long',
}, async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const shared = new Uint8Array(new SharedArrayBuffer(16 << 20));
  const expected: CapturedExchange[] = [];
  const sizes = [32_767, 32_768, 32_769, 36_864, 65_536, 100_001, 300_000, 1_200_000];
  for (const [round, shift] of [0, 1, 16, 4_095].entries()) {
    const originals = makeBatch(20 + round, sizes.length, 1_200_000);
    let at = shift;
    const place = (body: Uint8Array): Buffer => {
      shared.set(body, at);
      const placed = Buffer.from(shared.buffer, at, body.length);
      at += body.length + 5;
      return placed;
    };
    const batch = originals.map((exchange, i) => {
      const request_body = exchange.request_body.subarray(0, sizes[i]);
      const response_body = exchange.response_body.subarray(0, sizes[sizes.length - 1 - i]);
      expected.push({ ...exchange, request_body, response_body });
      return { ...exchange, request_body: place(request_body), response_body: place(response_body) };
    });
    await log.append(batch);
    shared.fill(round);
  }
  const reader = CaptureReader.open(path);
  expectBodies(reader, expected);
  while ((await log.packSome(1_000)) > 0);
  expectBodies(reader, expected);
  reader.close();
  await log.close();
});

it('an append fails, and uses no id, if a write fails while other exchanges are prepared', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const first = makeBatch(30, 10, 500_000);
  rmSync(`${path}.raw`, { recursive: true, force: true });
  writeFileSync(`${path}.raw`, 'in the way');
  await expect(log.append(first)).rejects.toThrow();
  rmSync(`${path}.raw`);
  expect(await log.append(first)).toEqual({ first_id: 1, last_id: 10 });
  const reader = CaptureReader.open(path);
  expectBodies(reader, first);
  reader.close();
  await log.close();
});

it('raw data in a file being sealed is packed in the sealed file, and ids continue meanwhile', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const exchanges = makeBatch(2, 200, 3_000);
  await log.append(exchanges);
  const rotated = log.rotate();
  const after = log.append(makeBatch(3, 1, 3_000));
  expect(await after).toEqual({ first_id: 201, last_id: 201 });
  const { sealed } = await rotated;
  expect(statSync(sealed!).size).toBeLessThan(200 * 6_000 * 0.75);
  const reader = CaptureReader.open(sealed!);
  expectBodies(reader, exchanges);
  reader.close();
  expect(await log.packSome(1_000)).toBe(0);
  await log.close();
});

it('a reopened log finds its raw blocks unchanged', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const first = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const exchanges = makeBatch(4, 200, 3_000);
  await first.append(exchanges);
  await first.close();
  const second = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const more = makeBatch(5, 200, 3_000);
  await second.append(more);
  while ((await second.packSome(1_000)) > 0);
  const reader = CaptureReader.open(path);
  expectBodies(reader, [...exchanges, ...more]);
  reader.close();
  await second.close();
});

it('secrets, attachments and texts that look like stored formats are recognized under pressure as well', async () => {
  const folder = makeFolder();
  const path = join(folder, 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const credential = 'canary-credential-0123456789';
  const shaped = 'sk-ant-api03-canarycanarycanary0123456789';
  const file = Buffer.from(createPrng(3).below(1e9).toString(36).repeat(400));
  const placeholder = `\0@svc-file:s${'0'.repeat(64)}\0`;
  const spoilt: [body: string, stored: string][] = [
    [`an echo of ${credential} here`, 'an echo of [redacted] here'],
    [`a key ${shaped}`, 'a key [redacted]'],
    ['-----BEGIN PRIVATE KEY-----\nMIIcanary\n-----END PRIVATE KEY-----', '[redacted]'],
    [`{"data":"${file.toString('base64')}"}`, `{"data":"${file.toString('base64')}"}`],
    [placeholder, placeholder],
  ];
  const batch = makeBatch(5, 100, 3_000);
  for (const [at, [body]] of spoilt.entries()) {
    batch[at * 20 + 3] = makeExchange({
      request_headers: ['x-api-key', credential],
      request_body: Buffer.from(body),
      response_body: Buffer.from(body),
    });
  }
  await log.append(batch);
  await log.close();
  const reader = CaptureReader.open(path);
  for (const [at, [, stored]] of spoilt.entries()) {
    for (const side of ['request', 'response'] as const)
      expect(reader.body(at * 20 + 4, side)!.toString()).toBe(stored);
  }
  expect(reader.body(1, 'request')).toEqual(batch[0]!.request_body);
  reader.close();
  for (const { path: name, bytes } of readAllFiles(folder)) {
    for (const secret of [credential, 'canarycanary', 'MIIcanary'])
      expect([name, secret, bytes.includes(secret)]).toEqual([name, secret, false]);
  }
});

const rawNames = (path: string) => (existsSync(`${path}.raw`) ? readdirSync(`${path}.raw`) : []);

it('raw blocks are stored beside the database until they are packed and on the disk', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const exchanges = makeBatch(6, 100, 3_000);
  await log.append(exchanges);
  expect(rawNames(path)).toHaveLength(1);
  expect(statSync(path).size).toBeLessThan(200_000);
  expect(log.stats().bytes).toBeGreaterThan(600_000);
  const reader = CaptureReader.open(path);
  expectBodies(reader, exchanges.slice(0, 1));
  while ((await log.packSome(1_000)) > 0);
  expect(rawNames(path)).toHaveLength(1);
  await log.flush();
  expect(rawNames(path)).toEqual([]);
  // This reader has read the database before the packing.
  expectBodies(reader, exchanges);
  reader.close();
  await log.append(makeBatch(7, 100, 3_000));
  expect(rawNames(path)).toHaveLength(1);
  await log.close();
});

it('a failed append leaves no block behind, and the next one builds on the previous state', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  let mustFail = false;
  const log = await CaptureLog.open({
    path,
    redact: true,
    pressed_rate: 1,
    fault: (point) => {
      if (mustFail && point === 'commit') throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
    },
  });
  const first = makeBatch(8, 100, 3_000);
  await log.append(first);
  mustFail = true;
  await expect(log.append(makeBatch(9, 100, 3_000))).rejects.toThrow('no space');
  await expect(log.append(makeBatch(9, 100, 3_000))).rejects.toThrow('no space');
  expect(rawNames(path)).toEqual(['1.raw']);
  mustFail = false;
  const third = makeBatch(10, 100, 3_000);
  expect(await log.append(third)).toEqual({ first_id: 101, last_id: 200 });
  await log.close();
  const reader = CaptureReader.open(path);
  expectBodies(reader, [...first, ...third]);
  reader.close();
});

it('after a failed sync, no flush succeeds and no raw file is deleted until the file is sealed', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  let mustFail = false;
  const log = await CaptureLog.open({
    path,
    redact: true,
    pressed_rate: 1,
    fault: (point) => {
      if (mustFail && point === 'sync') throw new Error('EIO: i/o error, fsync');
    },
  });
  const first = makeBatch(13, 100, 3_000);
  await log.append(first);
  expect(await log.packSome(0)).toBe(1);
  mustFail = true;
  await expect(log.flush()).rejects.toThrow(/^EIO/);
  await expect(log.rotate()).rejects.toThrow(/^EIO/);
  mustFail = false;
  await expect(log.flush()).rejects.toThrow(
    'EIO: i/o error, fsync): the data may be missing on the disk until the file is rotated',
  );
  expect(await log.packSome(10_000)).toBe(0);
  expect(await log.append(makeBatch(14, 100, 3_000))).toEqual({ first_id: 101, last_id: 200 });
  await expect(log.flush()).rejects.toThrow('until the file is rotated');
  expect(rawNames(path)).toEqual(['1.raw']);
  const { sealed } = await log.rotate();
  const reader = CaptureReader.open(sealed!);
  expectBodies(reader, first);
  reader.close();
  await log.append([makeExchange()]);
  await log.flush();
  expect(rawNames(path)).toEqual([]);
  // Now the sync of the new file fails.
  mustFail = true;
  await expect(log.flush()).rejects.toThrow(/^EIO/);
  mustFail = false;
  await expect(log.close()).rejects.toThrow('until the file is rotated');
});

it('the next writer packs the raw blocks of an earlier writer, and removes unknown files', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const exchanges = makeBatch(11, 100, 3_000);
  const first = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  await first.append(exchanges);
  await first.close();
  writeFileSync(`${path}.raw/7.raw`, 'of a commit that never happened');
  const second = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  expect(rawNames(path)).toEqual(['1.raw']);
  let packed = 0;
  for (let done = await second.packSome(1_000); done > 0; done = await second.packSome(1_000)) packed += done;
  expect(packed).toBeGreaterThan(5);
  await second.flush();
  expect(rawNames(path)).toEqual([]);
  await second.close();
  const reader = CaptureReader.open(path);
  expectBodies(reader, exchanges);
  reader.close();
});

it('an interrupted sealing is finished with its raw blocks', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const exchanges = makeBatch(12, 100, 3_000);
  const first = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  await first.append(exchanges);
  await first.close();
  renameSync(path, sealedPath(path, 1, 100, true));
  const second = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  await second.append(makeBatch(13, 100, 3_000));
  const sealed = sealedPath(path, 1, 100, false);
  await expect.poll(() => existsSync(sealed), { timeout: 30_000 }).toBe(true);
  await second.close();
  expect(rawNames(path)).toHaveLength(1);
  const reader = CaptureReader.open(sealed);
  expectBodies(reader, exchanges);
  reader.close();
});

it('a lost raw file loses only its exchanges', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  await log.append(makeBatch(14, 100, 3_000));
  rmSync(`${path}.raw/1.raw`);
  while ((await log.packSome(1_000)) > 0);
  await log.append([makeExchange({ request_body: Buffer.from('still here') })]);
  await log.close();
  const reader = CaptureReader.open(path);
  expect(() => reader.body(1, 'request')).toThrow('raw file 1 is missing');
  expect(reader.body(101, 'request')!.toString()).toBe('still here');
  reader.close();
});

it('a backup is complete without raw files', async () => {
  const folder = makeFolder();
  const path = join(folder, 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  const exchanges = makeBatch(15, 100, 3_000);
  await log.append(exchanges);
  await writeBackup({ data_dir: folder, capture_db: path }, join(folder, 'copy'), () => {}, 0);
  await log.close();
  const reader = CaptureReader.open(join(folder, 'copy', 'capture.mdb'));
  expectBodies(reader, exchanges);
  reader.close();
});
