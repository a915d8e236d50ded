/** A capture database under a data key: live, in raw files, sealed by rotation, with attachments. */
import { randomBytes } from 'node:crypto';
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { DataKeyError } from '../../src/std/data-key.ts';
import { writeBackup } from '../../src/storage/backup.ts';
import { openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { restoreBackup } from '../../src/storage/restore.ts';
import { makeExchange, readAllFiles } from './captured.ts';
import { makeFolder } from './folder.ts';

const KEY = randomBytes(32);
const CANARY = 'canary-of-the-customer';
const PICTURE = Buffer.concat(Array.from({ length: 200 }, () => Buffer.from(CANARY)));

const bodyOf = (n: number) =>
  Buffer.from(JSON.stringify({ n, messages: [{ role: 'user', content: `${CANARY} ${n}` }] }));
const largeOf = (n: number) =>
  Buffer.from(
    JSON.stringify({ n, text: Array.from({ length: 300 }, () => CANARY + randomBytes(600).toString('hex')) }),
  );
const picture = Buffer.from(
  JSON.stringify({ source: { type: 'base64', media_type: 'image/png', data: PICTURE.toString('base64') } }),
);

/** The stored request, by id. */
async function fill(path: string, key: Buffer | null = KEY): Promise<Buffer[]> {
  const options = { path, redact: true, data_key: key, decode: decodeExchange };
  let log = await CaptureLog.open(options);
  const stored: Buffer[] = [];
  const append = async (bodies: Buffer[]) => {
    stored.push(...bodies);
    await log.append(
      bodies.map((request_body) =>
        makeExchange({ run_id: CANARY, request_body, response_body: Buffer.from(`"${CANARY}"`) }),
      ),
    );
  };
  await append([bodyOf(1)]);
  await append([bodyOf(2), picture]);
  await append(Array.from({ length: 20 }, (_, i) => bodyOf(100 + i)));
  while ((await log.indexSome(decodeExchange, 100)) > 0);
  await log.rotate();
  await append([bodyOf(3)]);
  await log.close();
  // With this option, blocks are stored raw, as under pressure.
  log = await CaptureLog.open({ ...options, pressed_rate: 0 });
  await append(Array.from({ length: 6 }, (_, i) => largeOf(i)));
  await log.close();
  return stored;
}

function listFiles(path: string): string[] {
  const folder = join(path, '..');
  return readdirSync(folder)
    .filter((name) => /^capture(\.\d+-\d+)?\.mdb$/.test(name))
    .map((name) => join(folder, name));
}

function readRequests(path: string, key: Buffer | null): Map<number, Buffer | Error> {
  const found = new Map<number, Buffer | Error>();
  for (const file of listFiles(path)) {
    const reader = CaptureReader.open(file, { data_key: key });
    const { first_id, last_id } = reader.range();
    for (let id = first_id; id <= last_id; id++) {
      try {
        found.set(id, Buffer.from(reader.body(id, 'request')!));
      } catch (error) {
        found.set(id, error as Error);
      }
    }
    void reader.close();
  }
  return found;
}

describe('a capture database under a data key', () => {
  it('returns what was stored, and nothing of it is readable on the disk', { tags: 'long' }, async () => {
    const folder = makeFolder();
    const path = join(folder, 'capture.mdb');
    const stored = await fill(path);
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    expect(names.some((name) => /\.raw$/.test(name) && name.includes('/'))).toBe(true);
    const check = () => {
      const found = readRequests(path, KEY);
      expect(found.size).toBe(stored.length);
      for (const [at, body] of stored.entries()) expect(found.get(at + 1), String(at + 1)).toEqual(body);
      const needles = [CANARY, Buffer.from(CANARY).toString('base64').slice(0, 24)];
      for (const { path: file, bytes } of readAllFiles(folder))
        for (const needle of needles) expect(bytes.includes(needle), `${needle} in ${file}`).toBe(false);
    };
    check();
    // The next process packs the raw blocks.
    const log = await CaptureLog.open({ path, redact: true, data_key: KEY, decode: decodeExchange });
    while ((await log.packSome(100)) > 0);
    while ((await log.indexSome(decodeExchange, 100)) > 0);
    await log.flush();
    await log.close();
    check();
    const reader = CaptureReader.open(path, { data_key: KEY });
    expect([...reader.summaries()].map(({ run_id }) => run_id)).toEqual(Array(7).fill(CANARY));
    await reader.close();
  });

  it('names its attachments so that the name does not reveal the picture', async () => {
    const names = async (key: Buffer | null) => {
      const path = join(makeFolder(), 'capture.mdb');
      await fill(path, key);
      return readdirSync(`${path}.files`);
    };
    const [plain, sealed, again, other] = [
      await names(null),
      await names(KEY),
      await names(KEY),
      await names(randomBytes(32)),
    ];
    expect(sealed).toHaveLength(1);
    expect(sealed).toEqual(again);
    expect(sealed).not.toEqual(plain);
    expect(sealed).not.toEqual(other);
  });

  it('is refused under another key and without a key; an unencrypted one is refused with a key', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    await fill(path);
    const sealed = join(path, '..', 'capture.1-23.mdb');
    for (const file of [path, sealed]) {
      expect(() => CaptureReader.open(file, { data_key: randomBytes(32) })).toThrow(/under another key/);
      expect(() => CaptureReader.open(file)).toThrow(/is encrypted: DATA_KEY_FILE/);
    }
    await expect(CaptureLog.open({ path, redact: true })).rejects.toBeInstanceOf(DataKeyError);
    const plain = join(makeFolder(), 'capture.mdb');
    await fill(plain, null);
    await expect(CaptureLog.open({ path: plain, redact: true, data_key: KEY })).rejects.toThrow(
      /is not encrypted/,
    );
  });

  it('names a sealed file from another database, and the others can be read', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const stored = await fill(path);
    const foreign = join(makeFolder(), 'capture.mdb');
    await fill(foreign, randomBytes(32));
    const sealed = join(path, '..', 'capture.1-23.mdb');
    copyFileSync(join(foreign, '..', 'capture.1-23.mdb'), `${sealed}.new`);
    writeFileSync(join(path, '..', 'capture.900-922.mdb'), readFileSync(`${sealed}.new`));
    const strange = join(path, '..', 'capture.900-922.mdb');
    expect(() => CaptureReader.open(strange, { data_key: KEY })).toThrow(
      `${strange} is encrypted under another key`,
    );
    const reader = CaptureReader.open(sealed, { data_key: KEY });
    expect(Buffer.from(reader.body(1, 'request')!)).toEqual(stored[0]);
    await reader.close();
  });

  it('loses only an altered block, and never shows an altered text', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const log = await CaptureLog.open({ path, redact: true, data_key: KEY });
    const bodies = Array.from({ length: 12 }, (_, i) =>
      Buffer.from(`${i} ${randomBytes(3_000).toString('hex')}`),
    );
    for (const [i, request_body] of bodies.entries())
      await log.append([makeExchange({ run_id: `run ${i}`, path: `/p${i}`, request_body })]);
    await log.close();
    const env = openCaptureEnv(path, 'write', KEY);
    for (const [id, spoil] of [
      [3, (value: Buffer) => value.subarray(0, value.length - 1)],
      [5, (value: Buffer) => Buffer.concat([value.subarray(0, -1), Buffer.of(value.at(-1)! ^ 1)])],
      [7, () => env.blocks.get(8)!],
    ] as const)
      env.blocks.putSync(id, spoil(Buffer.from(env.blocks.get(id)!)));
    await env.root.close();
    const found = readRequests(path, KEY);
    for (const [at, body] of bodies.entries()) {
      const id = at + 1;
      if ([3, 5, 7].includes(id)) expect(found.get(id)).toMatchObject({ code: 'damaged' });
      else expect(found.get(id)).toEqual(body);
    }
  });

  it('detects an altered attachment', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    await fill(path);
    const [name] = readdirSync(`${path}.files`);
    const file = join(`${path}.files`, name!);
    const bytes = readFileSync(file);
    bytes[40]! ^= 1;
    writeFileSync(file, bytes);
    const found = readRequests(path, KEY);
    const damaged = [...found].filter(([, body]) => body instanceof Error);
    expect(damaged).toHaveLength(1);
    expect(String(damaged[0]![1])).toMatch(/attachment .* is damaged/);
  });

  it('is backed up and restored under its key, with waiting raw files packed', async () => {
    const folder = makeFolder();
    const path = join(folder, 'capture.mdb');
    const stored = await fill(path);
    const places = { data_dir: folder, capture_db: path };
    const out = join(makeFolder(), 'copy');
    await expect(writeBackup(places, out, () => {}, 0)).rejects.toThrow(/is encrypted/);
    await writeBackup({ ...places, data_key: KEY }, out, () => {}, 0);
    const into = makeFolder();
    const target = { data_dir: into, capture_db: join(into, 'capture.mdb'), data_key: KEY };
    await restoreBackup(out, target, () => {});
    const found = readRequests(target.capture_db, KEY);
    expect(found.size).toBe(stored.length);
    for (const [at, body] of stored.entries()) expect(found.get(at + 1)).toEqual(body);
    for (const { path: file, bytes } of [...readAllFiles(out), ...readAllFiles(into)])
      expect(bytes.includes(CANARY), file).toBe(false);
  });
});
