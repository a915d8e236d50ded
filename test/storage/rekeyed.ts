/**
 * A data folder with everything that a change of the data key affects, and checks of its content afterwards. Test
 * thread; a change that is killed is a separate process.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { databasePaths, openStores } from '../../src/storage/lmdb/stores.ts';
import { rekeyData } from '../../src/storage/rekey.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { makeExchange, readAllFiles } from './captured.ts';

export type Key = Buffer | null;
export const OLD = randomBytes(32);
export const NEW = randomBytes(32);
export const CANARY = 'canary-of-the-customer';
const PICTURE = Buffer.concat(Array.from({ length: 200 }, () => Buffer.from(CANARY)));
const ROWS = 1_500;

const text = (n: number) => Buffer.from(JSON.stringify({ n, messages: [{ content: `${CANARY} ${n}` }] }));
export const picture = Buffer.from(
  JSON.stringify({ source: { type: 'base64', media_type: 'image/png', data: PICTURE.toString('base64') } }),
);
const random = () => Buffer.from(JSON.stringify({ text: CANARY + randomBytes(90_000).toString('hex') }));

/** Fills a data folder with rows and captures. @returns the stored requests, in the order of their ids from 1 */
export async function fill(folder: string, key: Key): Promise<Buffer[]> {
  const { main, runs } = openStores(databasePaths(folder, key));
  await main.transact((tx) => {
    for (let n = 0; n < ROWS; n++) tx.write({ op: 'put', table: 't', row: [n], value: `${CANARY} ${n}` });
  });
  await runs.transact((tx) => tx.write({ op: 'put', table: 'runs', row: ['r'], value: CANARY }));
  await Promise.all([main.close(), runs.close()]);
  const path = join(folder, 'capture.mdb');
  const options = { path, redact: true, data_key: key, decode: decodeExchange };
  let log = await CaptureLog.open(options);
  const stored: Buffer[] = [];
  const append = async (bodies: Buffer[]) => {
    stored.push(...bodies);
    await log.append(bodies.map((request_body) => makeExchange({ run_id: 'r', request_body })));
  };
  await append([text(1)]);
  await append([picture, random()]);
  await append(Array.from({ length: 70 }, (_, n) => text(n)));
  while ((await log.indexSome(decodeExchange, 100)) > 0);
  await log.rotate();
  await append([text(2), picture]);
  await log.close();
  log = await CaptureLog.open({ ...options, pressed_rate: 0 });
  await append([random(), random(), random()]);
  await log.close();
  return stored;
}

/** Checks that all data is readable with this key, and that the files show the canary only if the key is null. */
export async function check(folder: string, key: Key, stored: readonly Buffer[]): Promise<void> {
  const { main, runs } = openStores(databasePaths(folder, key));
  const values = [...main.range<string>('t', { prefix: [] })].map(({ value }) => value);
  expect(values).toEqual(Array.from({ length: ROWS }, (_, n) => `${CANARY} ${n}`));
  expect(runs.get('runs', ['r'])).toBe(CANARY);
  await Promise.all([main.close(), runs.close()]);
  const files = readdirSync(folder).filter((name) => /^capture(\.\d+-\d+)?\.mdb$/.test(name));
  expect(files.length).toBe(2);
  const found = new Map<number, Buffer>();
  for (const name of files) {
    const reader = CaptureReader.open(join(folder, name), { data_key: key });
    for (const { id, run_id } of reader.summaries()) {
      expect(run_id).toBe('r');
      found.set(id, Buffer.from(reader.body(id, 'request')!));
    }
    await reader.close();
  }
  expect(found.size).toBe(stored.length);
  for (const [at, body] of stored.entries())
    expect(found.get(at + 1)!.equals(body), String(at + 1)).toBe(true);
  const isVisible = readAllFiles(folder).some(({ bytes }) => bytes.includes(CANARY));
  expect(isVisible).toBe(key === null);
}

export const rekey = (folder: string, from: Key, to: Key) =>
  rekeyData(
    { data_dir: folder, capture_db: join(folder, 'capture.mdb'), from, to, decode: decodeExchange },
    () => {},
  );

/** Files that may exist only during an unfinished change. */
export const leftOver = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('rekey'));

const hex = (key: Key) => key?.toString('hex') ?? 'none';

/**
 * Changes the key from `OLD`, or from no key, to `NEW` in a process that is killed at a step.
 * @param at -1: it is not killed, and reports the number of steps
 */
export function rekeyKilled(folder: string, from: Key, at: number): { signal: string | null; steps: number } {
  const { signal, stdout, stderr } = spawnSync(
    process.execPath,
    [
      ...STRIPPED_FLAGS,
      join(import.meta.dirname, 'killed-rekey.ts'),
      folder,
      hex(from),
      hex(NEW),
      String(at),
    ],
    { encoding: 'utf8' },
  );
  if (at < 0 && stdout === '') throw new Error(stderr);
  return { signal, steps: Number(stdout) };
}
