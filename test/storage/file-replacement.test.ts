/**
 * A command without a claim keeps a database open while another process replaces the file: none of the command's writes
 * is lost.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { draftPath } from '../../src/storage/lmdb/file-replacement.ts';
import { type DatabasePaths, databasePaths, openMain, tryStores } from '../../src/storage/lmdb/stores.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { planPath } from '../../src/storage/plan-file.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { makeFolder } from './folder.ts';

const TABLE = 'api_keys';

async function makeStores(): Promise<{ folder: string; paths: DatabasePaths }> {
  const folder = makeFolder();
  const paths = databasePaths(folder);
  await tryStores(paths);
  return { folder, paths };
}

async function compactElsewhere(folder: string): Promise<void> {
  const child = spawn(
    process.execPath,
    [...STRIPPED_FLAGS, join(import.meta.dirname, 'killed-compaction.ts'), folder, '-1'],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  expect(await once(child, 'exit')).toEqual([0, null]);
}

const put = (tables: LmdbTables, n: number) =>
  tables.transact((tx) => tx.write({ op: 'put', table: TABLE, row: [n], value: n }));

async function readRows(path: string): Promise<number[]> {
  const tables = new LmdbTables(path, 'disk');
  const rows = [...tables.range<number>(TABLE, { prefix: [] })].map(({ value }) => value);
  await tables.close();
  return rows;
}

it('a command’s write after a compaction is in the new file', async () => {
  const { folder, paths } = await makeStores();
  const command = openMain(paths);
  await put(command, 1);
  await compactElsewhere(folder);
  await put(command, 2);
  expect(command.get(TABLE, [1])).toBe(1);
  await command.close();
  expect(await readRows(paths.main)).toEqual([1, 2]);
});

it('a command’s write during compactions succeeds or is refused', { tags: 'long' }, async () => {
  const { folder, paths } = await makeStores();
  const command = openMain(paths);
  const written: number[] = [];
  let isDone = false;
  const writing = (async () => {
    for (let n = 0; !isDone; n++) {
      try {
        await put(command, n);
        written.push(n);
      } catch (thrown) {
        expect((thrown as Error).message).toContain('rewritten');
      }
    }
  })();
  for (let i = 0; i < 4; i++) await compactElsewhere(folder);
  isDone = true;
  await writing;
  await put(command, -1);
  await command.close();
  expect(written.length).toBeGreaterThan(4);
  expect(await readRows(paths.main)).toEqual([-1, ...written]);
});

it('commands neither open nor write a file that is being replaced', async () => {
  const { folder, paths } = await makeStores();
  const command = openMain(paths);
  for (const [marker, cause] of [
    [draftPath(paths.main), 'is being rewritten'],
    [planPath(folder), 'is being changed'],
  ] as const) {
    writeFileSync(marker, '');
    expect(() => openMain(paths)).toThrow(cause);
    await expect(put(command, 1)).rejects.toThrow(cause);
    rmSync(marker);
  }
  await put(command, 2);
  await command.close();
  expect(await readRows(paths.main)).toEqual([2]);
});

it('the first start does not overwrite the database that a command is creating', async () => {
  const paths = databasePaths(makeFolder());
  const command = openMain(paths);
  await put(command, 1);
  await tryStores(paths);
  await put(command, 2);
  await command.close();
  expect(existsSync(draftPath(paths.main))).toBe(false);
  expect(await readRows(paths.main)).toEqual([1, 2]);
});
