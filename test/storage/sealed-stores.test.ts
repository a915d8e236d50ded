/** The databases of DATA_DIR and their redo logs under a data key. */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import { expect, it } from 'vitest';
import { DataKeyError, SealError } from '../../src/std/data-key.ts';
import { LmdbJournal } from '../../src/storage/lmdb/journal.ts';
import { databasePaths, openStores, redoLogPath, tryStores } from '../../src/storage/lmdb/stores.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { readAllFiles } from './captured.ts';
import { makeFolder } from './folder.ts';

const KEY = randomBytes(32);
const CANARY = 'canary-of-the-customer';

const commit = (journal: LmdbJournal, seq: number, event: string) =>
  new Promise<void>((resolve, reject) => {
    const row = { op: 'put' as const, table: 'steps', row: ['r', seq], value: event };
    const count = { op: 'add' as const, table: 'counts', row: ['r'], counts: { [CANARY]: 1 } };
    journal.commit(
      [
        { type: 'event', kind: 'run', key: 'r', seq, event: Buffer.from(event) },
        { type: 'row', kind: 'run', row },
        { type: 'row', kind: 'run', row: count },
      ] as Parameters<LmdbJournal['commit']>[0],
      (error) => (error === null ? resolve() : reject(error)),
    );
  });

function openRuns(folder: string): LmdbJournal {
  const paths = databasePaths(folder, KEY);
  const kinds = new Set(['run']);
  const promises = { path: redoLogPath(paths, 1), kinds, tables: new Set(['steps', 'counts']) };
  return new LmdbJournal(paths.runs, 'process', promises, KEY);
}

it('a store reads what it wrote, in both orders, and leaves none of it readable on the disk', async () => {
  const folder = makeFolder();
  const path = join(folder, 'main.mdb');
  const tables = new LmdbTables(path, 'disk', KEY);
  await tables.transact((tx) => {
    for (let n = 0; n < 300; n++) tx.write({ op: 'put', table: 't', row: ['a', n], value: `${CANARY} ${n}` });
    for (let n = 0; n < 3; n++) tx.write({ op: 'add', table: 'c', row: ['a'], counts: { n: 2 } });
    tx.write({ op: 'remove', table: 't', row: ['a', 7] });
    expect(tx.get('t', ['a', 8])).toBe(`${CANARY} 8`);
  });
  expect(tables.get('t', ['a', 8])).toBe(`${CANARY} 8`);
  expect(tables.get('t', ['a', 7])).toBeUndefined();
  expect(tables.get('c', ['a'])).toEqual({ n: 6 });
  const page = [
    ...tables.range<string>('t', { prefix: ['a'], after: ['a', 200], reverse: true, offset: 1, limit: 2 }),
  ];
  expect(page.map(({ value }) => value)).toEqual([`${CANARY} 198`, `${CANARY} 197`]);
  await tables.close();
  const again = new LmdbTables(path, 'disk', KEY);
  expect([...again.range('t', { prefix: [] })]).toHaveLength(299);
  await again.close();
  for (const { path: file, bytes } of readAllFiles(folder)) expect(bytes.includes(CANARY), file).toBe(false);
});

it('a sealed log holds acknowledged runs, which the next process reads', async () => {
  const folder = makeFolder();
  const first = openRuns(folder);
  for (let seq = 1; seq <= 30; seq++) await commit(first, seq, `${CANARY} ${seq}`);
  const log = readFileSync(redoLogPath(databasePaths(folder), 1));
  expect(log.includes(CANARY)).toBe(false);
  // A killed process leaves this state: its records are not in the database yet.
  const copy = makeFolder();
  const paths = databasePaths(copy, KEY);
  await openRuns(copy).close();
  const identity = readFileSync(redoLogPath(paths, 1)).subarray(0, 24);
  await first.close();
  expect(identity).toHaveLength(24);
  const again = openRuns(folder);
  const { events } = again.load('run', 'r');
  expect(events.map((event) => Buffer.from(event).toString())).toEqual(
    Array.from({ length: 30 }, (_, i) => `${CANARY} ${i + 1}`),
  );
  await again.close();
  const { main, runs } = openStores(databasePaths(folder, KEY));
  expect(runs.get('counts', ['r'])).toEqual({ [CANARY]: 30 });
  await Promise.all([main.close(), runs.close()]);
  for (const { path: file, bytes } of readAllFiles(folder)) expect(bytes.includes(CANARY), file).toBe(false);
});

it('a wrong key, a missing key, and a key for unencrypted data have different errors', async () => {
  const sealed = makeFolder();
  await tryStores(databasePaths(sealed, KEY));
  const plain = makeFolder();
  const filled = openStores(databasePaths(plain));
  await filled.main.transact((tx) => tx.write({ op: 'put', table: 't', row: [1], value: 1 }));
  await Promise.all([filled.main.close(), filled.runs.close()]);
  const refusal = (folder: string, key: Buffer | null) =>
    tryStores(databasePaths(folder, key)).then(
      () => null,
      (thrown: Error) => thrown,
    );
  const other = await refusal(sealed, randomBytes(32));
  expect(other).toBeInstanceOf(DataKeyError);
  expect(other!.message).toMatch(
    /^\S+main\.mdb is encrypted under another key \([0-9a-f]{16}\) than the one in DATA_KEY_FILE/,
  );
  const missing = await refusal(sealed, null);
  expect(missing).toBeInstanceOf(DataKeyError);
  expect(missing!.message).toMatch(/is encrypted: DATA_KEY_FILE must name/);
  const needless = await refusal(plain, KEY);
  expect(needless).toBeInstanceOf(DataKeyError);
  expect(needless!.message).toMatch(/is not encrypted, and DATA_KEY_FILE is set: understudy rekey/);
  // The attempts changed nothing.
  expect(await refusal(sealed, KEY)).toBeNull();
  expect(await refusal(plain, null)).toBeNull();
});

it('a row that was altered, cut off or moved is not returned; the others are unchanged', async () => {
  const folder = makeFolder();
  const path = join(folder, 'main.mdb');
  const tables = new LmdbTables(path, 'disk', KEY);
  await tables.transact((tx) => {
    for (let n = 0; n < 6; n++) tx.write({ op: 'put', table: 't', row: [n], value: `value ${n}` });
  });
  await tables.close();
  const root = open<Buffer, Buffer>({
    path,
    noSubdir: true,
    maxDbs: 128,
    encoding: 'binary',
    keyEncoding: 'binary',
  });
  const raw = root.openDB<Buffer, Buffer>({ name: 'rows:t', encoding: 'binary', keyEncoding: 'binary' });
  const entries = [...raw.getRange({})].map(({ key, value }) => ({
    key: Buffer.from(key),
    value: Buffer.from(value),
  }));
  entries[1]!.value[20]! ^= 1;
  raw.putSync(entries[1]!.key, entries[1]!.value);
  raw.putSync(entries[3]!.key, entries[3]!.value.subarray(0, 25));
  raw.putSync(entries[4]!.key, entries[5]!.value);
  await root.close();
  const again = new LmdbTables(path, 'disk', KEY);
  for (const n of [1, 3, 4]) expect(() => again.get('t', [n]), String(n)).toThrow(SealError);
  for (const n of [0, 2, 5]) expect(again.get('t', [n])).toBe(`value ${n}`);
  expect([...again.range('t', { prefix: [] })].map(({ value }) => value)).toEqual([
    'value 0',
    'value 2',
    'value 5',
  ]);
  await again.close();
});

it('an altered record of a redo log is skipped', async () => {
  const folder = makeFolder();
  const paths = databasePaths(folder, KEY);
  const log = redoLogPath(paths, 1);
  const journal = openRuns(folder);
  await commit(journal, 1, 'first');
  await commit(journal, 2, 'second');
  const promised = readFileSync(log);
  await journal.close();
  // A log with both records unchanged, and a database without them.
  const fresh = makeFolder();
  const before = openRuns(fresh);
  await before.close();
  const target = redoLogPath(databasePaths(fresh, KEY), 1);
  const spoilt = Buffer.concat([readFileSync(target).subarray(0, 24), promised.subarray(24)]);
  writeFileSync(target, spoilt);
  // The record was encrypted for another log, so it does not open here and is not read.
  const again = openRuns(fresh);
  expect(again.load('run', 'r').events).toEqual([]);
  await again.close();
});
