/** Compaction of the databases of DATA_DIR keeps existing data and leaves no removed data. */

import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FINDINGS } from '../../src/domain/finding-rows.ts';
import { PATTERNS } from '../../src/domain/pattern-rows.ts';
import { RUN_GATHERED_STEPS, RUN_STEPS, RUNS } from '../../src/domain/run-rows.ts';
import { TRACES } from '../../src/domain/trace-rows.ts';
import { FEEDBACK } from '../../src/storage/accounts/feedback.ts';
import { INVITATIONS } from '../../src/storage/accounts/invitations.ts';
import { PROFILES } from '../../src/storage/accounts/profiles.ts';
import { PROJECTS } from '../../src/storage/accounts/projects.ts';
import { compactAtStart, compactData } from '../../src/storage/compaction.ts';
import { hasDeletions } from '../../src/storage/lmdb/store-file.ts';
import { closeStores, databasePaths, openStores, tryStores } from '../../src/storage/lmdb/stores.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { RedoLog } from '../../src/storage/redo-log.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { readAllFiles } from './captured.ts';
import { makeFolder } from './folder.ts';

const ROWS = 400;
const CANARY = 'zebrawoodcanary4711';
const wordsOf = (n: number) => `row ${n} ${'lorem '.repeat(n % 900)}`;

/** Fills both databases with rows and removes some, and leaves a redo log whose records are in runs.mdb. */
async function fill(folder: string, key: Buffer | null): Promise<void> {
  const paths = databasePaths(folder, key);
  await tryStores(paths);
  const stores = openStores(paths);
  for (const [tables, table] of [
    [stores.main, FINDINGS],
    [stores.runs, 'runs'],
  ] as const) {
    await tables.transact((tx) => {
      for (let n = 0; n < ROWS; n++) tx.write({ op: 'put', table, row: ['a', n], value: wordsOf(n) });
      for (let n = 0; n < ROWS; n++)
        tx.write({ op: 'put', table, row: ['b', n], value: `${CANARY} ${wordsOf(n)}` });
    });
    await tables.transact((tx) => {
      for (let n = 0; n < ROWS; n++) tx.write({ op: 'remove', table, row: ['b', n] });
    });
  }
  await closeStores(stores);
}

async function check(folder: string, key: Buffer | null): Promise<void> {
  const stores = openStores(databasePaths(folder, key));
  for (const [tables, table] of [
    [stores.main, FINDINGS],
    [stores.runs, 'runs'],
  ] as const) {
    const rows = [...tables.range<string>(table, { prefix: [] })];
    expect(rows.map(({ value }) => value)).toEqual(Array.from({ length: ROWS }, (_, n) => wordsOf(n)));
  }
  await closeStores(stores);
}

const filesWith = (folder: string, text: string) =>
  readAllFiles(folder)
    .filter(({ bytes }) => bytes.includes(text))
    .map(({ path }) => path);

describe.each([
  ['without a data key', null],
  ['with a data key', randomBytes(32)],
])('a compaction of databases %s', (_, key) => {
  it('keeps every row and no byte of a removed one, and makes the files smaller', async () => {
    const folder = makeFolder();
    await fill(folder, key);
    const { main, runs } = databasePaths(folder);
    const before = [main, runs].map((path) => statSync(path).size);
    if (key === null) expect(filesWith(folder, CANARY)).toHaveLength(2);
    const done = await compactData({ data_dir: folder, data_key: key }, () => {});
    expect(done.map(({ before_bytes }) => before_bytes)).toEqual(before);
    for (const { before_bytes, after_bytes } of done) expect(after_bytes).toBeLessThan(before_bytes);
    expect(filesWith(folder, CANARY)).toEqual([]);
    await check(folder, key);
  });
});

it('a compaction that is killed before any of its file operations leaves all data readable; the next one completes it', {
  tags: 'long',
}, async () => {
  const full = makeFolder();
  await fill(full, null);
  const kill = (folder: string, at: number) =>
    spawnSync(
      process.execPath,
      [...STRIPPED_FLAGS, join(import.meta.dirname, 'killed-compaction.ts'), folder, String(at)],
      { encoding: 'utf8' },
    );
  const whole = makeFolder();
  cpSync(full, whole, { recursive: true });
  const operations = Number(kill(whole, -1).stdout);
  expect(operations).toBeGreaterThan(15);
  for (let at = 1; at <= operations; at++) {
    const folder = makeFolder();
    cpSync(full, folder, { recursive: true });
    expect(kill(folder, at).signal, `operation ${at}`).toBe('SIGKILL');
    await tryStores(databasePaths(folder));
    await check(folder, null);
    await compactAtStart(filesOf(databasePaths(folder)), Number.MAX_SAFE_INTEGER);
    expect(filesWith(folder, CANARY), `operation ${at}`).toEqual([]);
    expect(
      readdirSync(folder).filter((name) => name.includes('.new')),
      `operation ${at}`,
    ).toEqual([]);
  }
});

const filesOf = ({ main, runs }: { main: string; runs: string }) => [main, runs];

describe('a file with unused pages', () => {
  it.each([
    [40, true],
    [20, false],
  ])('of %i MiB is compacted at the start: %s', async (mebibytes, isCompacted) => {
    const paths = databasePaths(makeFolder());
    await tryStores(paths);
    const tables = new LmdbTables(paths.runs, 'process');
    const rows = mebibytes * 16;
    const value = 'x'.repeat(64 << 10);
    await tables.transact((tx) => {
      for (let n = 0; n < rows; n++) tx.write({ op: 'put', table: 'traces_unfinished', row: [n], value });
    });
    await tables.transact((tx) => {
      for (let n = 1; n < rows; n++) tx.write({ op: 'remove', table: 'traces_unfinished', row: [n] });
    });
    await tables.close();
    expect(await hasDeletions(paths.runs)).toBe(false);
    // The content of a file that is compacted must not be larger than this.
    expect(await compactAtStart([paths.runs], 10_000)).toEqual({ done: [], put_off: [] });
    const { done, put_off } = await compactAtStart([paths.runs], 1e6);
    expect({ files: done.map(({ path }) => path), put_off }).toEqual({
      files: isCompacted ? [paths.runs] : [],
      put_off: [],
    });
    expect(statSync(paths.runs).size > 1e6).toBe(!isCompacted);
    const again = new LmdbTables(paths.runs, 'process');
    expect([...again.range<string>('traces_unfinished', { prefix: [] })]).toEqual([{ row: [0], value }]);
    await again.close();
  });
});

describe('the mark of deletions', () => {
  it.each([
    ...[
      FINDINGS,
      PROFILES,
      FEEDBACK,
      INVITATIONS,
      PROJECTS,
      RUNS,
      RUN_STEPS,
      TRACES,
      PATTERNS,
      RUN_GATHERED_STEPS,
    ],
    ...['api_keys', 'members', 'organizations', 'subscriptions', 'users'],
  ])('is written with the removal of a row of %s, and is removed by the compaction', async (table) => {
    const folder = makeFolder();
    const paths = databasePaths(folder);
    await tryStores(paths);
    const change = async (op: 'put' | 'remove', row: string) => {
      const tables = new LmdbTables(paths.main, 'disk');
      await tables.transact((tx) =>
        tx.write(op === 'put' ? { op, table, row: [row], value: 1 } : { op, table, row: [row] }),
      );
      await tables.close();
    };
    await change('put', 'a');
    await change('remove', 'missing');
    expect(await hasDeletions(paths.main)).toBe(false);
    expect((await compactAtStart(filesOf(paths), 1e9)).done).toEqual([]);
    await change('remove', 'a');
    expect(await hasDeletions(paths.main)).toBe(true);
    const put_off = [{ path: paths.main, why: expect.stringContaining('larger than 100 bytes') }];
    expect(await compactAtStart(filesOf(paths), 100)).toEqual({ done: [], put_off });
    expect((await compactAtStart(filesOf(paths), 1e9)).done).toHaveLength(1);
    expect(await hasDeletions(paths.main)).toBe(false);
  });

  it.each(['organizations', PROFILES, PROJECTS, 'users'])(
    'is written when a row of %s gets another value, but not with its first one',
    async (table) => {
      const paths = databasePaths(makeFolder());
      await tryStores(paths);
      for (const [value, isMarked] of [
        [1, false],
        [2, true],
      ]) {
        const tables = new LmdbTables(paths.main, 'disk');
        await tables.transact((tx) => tx.write({ op: 'put', table, row: ['a'], value }));
        await tables.close();
        expect(await hasDeletions(paths.main)).toBe(isMarked);
      }
    },
  );

  it('is not written when a table loses rows in normal operation', async () => {
    const folder = makeFolder();
    const paths = databasePaths(folder);
    await tryStores(paths);
    const tables = new LmdbTables(paths.main, 'disk');
    for (const table of ['audit_outbox', 'trace_bodies', 'traces_unfinished'])
      await tables.transact((tx) => {
        tx.write({ op: 'put', table, row: ['a'], value: 1 });
        tx.write({ op: 'remove', table, row: ['a'] });
      });
    await tables.transact((tx) => {
      for (let n = 0; n < 3; n++) tx.write({ op: 'put', table: RUN_STEPS, row: ['a', n], value: n });
      tx.write({ op: 'clear', table: RUN_STEPS, row: ['a', 0], end: ['a', 2] });
    });
    expect([...tables.range(RUN_STEPS, { prefix: [] })]).toEqual([{ row: ['a', 2], value: 2 }]);
    await tables.close();
    expect(await hasDeletions(paths.main)).toBe(false);
  });
});

describe('a wiped redo log', () => {
  const append = (log: RedoLog, text: string) => log.append((into, at) => at + into.write(text, at));

  it('contains no byte of obsolete records, and all valid ones', () => {
    const path = join(makeFolder(), 'runs.0.redo');
    const log = new RedoLog(path, 4_096);
    for (let n = 0; n < 5; n++) append(log, `${CANARY} ${n}`);
    log.wipe();
    expect(readFileSync(path).includes(`${CANARY} 4`)).toBe(true);
    log.beginAgain();
    append(log, 'what counts');
    log.wipe();
    expect(readFileSync(path).includes(CANARY)).toBe(false);
    append(log, 'and what follows');
    log.close();
    const again = new RedoLog(path, 4_096);
    expect(again.found.map(({ payload }) => payload.toString())).toEqual(['what counts', 'and what follows']);
    again.beginAgain();
    again.wipe();
    again.close();
    expect(readFileSync(path).includes('what')).toBe(false);
  });

  it('is wiped at the start, even behind its last record', async () => {
    const folder = makeFolder();
    const path = join(folder, 'runs.3.redo');
    const log = new RedoLog(path, 4_096);
    append(log, CANARY);
    log.close();
    writeFileSync(path, CANARY, { flag: 'a' });
    await tryStores(databasePaths(folder));
    expect(readFileSync(path).includes(CANARY)).toBe(false);
  });
});
