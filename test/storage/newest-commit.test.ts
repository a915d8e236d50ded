/**
 * Write transactions continue the newest commit, although other processes open the database meanwhile. LMDB lets an
 * opening process set the number of the newest commit back, so that commits would be lost.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { type Database, open } from 'lmdb';
import { describe, expect, it } from 'vitest';
import { Environment } from '../../src/storage/lmdb/environment.ts';
import { openForWriting } from '../../src/storage/lmdb/newest-commit.ts';
import { makeFolder } from './folder.ts';
import { setBack } from './lock-number.ts';

const OPTIONS = { noSubdir: true, overlappingSync: false, noSync: true, cache: false, maxDbs: 4 } as const;
const TABLE = { name: 'rows', keyEncoding: 'uint32', encoding: 'binary', cache: false } as const;
const listKeys = (table: Database<Buffer, number>) => [...table.getKeys({})];

/** The keys that another handle reads, which has its own snapshot. */
async function readAside(path: string): Promise<number[]> {
  const root = open({ ...OPTIONS, path });
  const keys = listKeys(root.openDB<Buffer, number>(TABLE));
  await root.close();
  return keys;
}

describe('a write transaction', () => {
  const value = Buffer.from('value');

  it.each([1, 2, 3])('continues the newest commit if its number was set back by %i', async (by) => {
    const path = join(makeFolder(), 'rows.mdb');
    const root = openForWriting<Buffer, number>({ ...OPTIONS, path });
    const rows = root.openDB<Buffer, number>(TABLE);
    for (let key = 1; key <= 5; key++) root.transactionSync(() => rows.putSync(key, value));
    setBack(path, by);
    root.transactionSync(() => rows.putSync(6, value));
    setBack(path, by);
    // A single write is a transaction, too.
    rows.putSync(7, value);
    setBack(path, by);
    await root.childTransaction(() => rows.putSync(8, value));
    rows.removeSync(1);
    expect(listKeys(rows)).toEqual([2, 3, 4, 5, 6, 7, 8]);
    await root.close();
    expect(await readAside(path)).toEqual([2, 3, 4, 5, 6, 7, 8]);
  });

  it('runs its work once, and throws what the work throws', async () => {
    const path = join(makeFolder(), 'rows.mdb');
    const root = openForWriting<Buffer, number>({ ...OPTIONS, path });
    const rows = root.openDB<Buffer, number>(TABLE);
    rows.putSync(1, value);
    setBack(path, 1);
    let runs = 0;
    const fail = () => {
      runs++;
      rows.putSync(2, value);
      throw new Error('not today');
    };
    expect(() => root.transactionSync(fail)).toThrow('not today');
    setBack(path, 1);
    await expect(root.childTransaction(fail)).rejects.toThrow('not today');
    expect(runs).toBe(2);
    // A transaction within another one is part of it.
    root.transactionSync(() => root.transactionSync(() => rows.putSync(3, value)));
    expect(listKeys(rows)).toEqual([1, 3]);
    await root.close();
  });

  it('of each durability continues the newest commit', async () => {
    for (const durability of ['disk', 'process'] as const) {
      const path = join(makeFolder(), 'rows.mdb');
      const environment = Environment.open(path, durability);
      const key = (number: number) => Buffer.from([number]);
      for (let number = 1; number <= 6; number++) {
        await environment.transact(() => environment.named('rows').putSync(key(number), value));
        if (number > 1) setBack(path, 1);
      }
      await environment.transact(() => environment.named('rows').putSync(key(7), value));
      const keys = [...environment.named('rows').getKeys({})].map((found) => found[0]);
      expect(keys).toEqual([1, 2, 3, 4, 5, 6, 7]);
      await environment.close();
    }
  });
});

describe('readers', () => {
  it('see the last commit again, although no other one follows', async () => {
    const path = join(makeFolder(), 'rows.mdb');
    const root = openForWriting<Buffer, number>({ ...OPTIONS, path });
    const rows = root.openDB<Buffer, number>(TABLE);
    rows.putSync(1, Buffer.from('value'));
    rows.putSync(2, Buffer.from('value'));
    setBack(path, 1);
    expect(await readAside(path)).toEqual([1]);
    await expect.poll(() => readAside(path)).toEqual([1, 2]);
    await root.close();
  });
});

describe('a database that other processes open all the time', () => {
  it('keeps each commit', { tags: 'long' }, async () => {
    const path = join(makeFolder(), 'rows.mdb');
    const root = openForWriting<Buffer, number>({ ...OPTIONS, path });
    const rows = root.openDB<Buffer, number>(TABLE);
    const reader = join(import.meta.dirname, 'opening-reader.ts');
    const readers = [1, 2].map(() =>
      spawn(process.execPath, [reader, path], { stdio: ['ignore', 'pipe', 'inherit'] }),
    );
    let opened = 0;
    for (const { stdout } of readers) stdout.on('data', (lines: Buffer) => (opened += lines.length));
    let commits = 0;
    try {
      await Promise.all(readers.map(({ stdout }) => once(stdout, 'data')));
      while (opened < 3_000) {
        for (let n = 0; n < 50; n++)
          root.transactionSync(() => rows.putSync(++commits, Buffer.from(`row ${commits}`)));
        await nextTick();
      }
    } finally {
      for (const child of readers) child.kill('SIGKILL');
      await Promise.all(readers.map((child) => once(child, 'close')));
    }
    let next = 1;
    for (const { key, value } of rows.getRange({})) {
      expect(key).toBe(next);
      expect(value.toString()).toBe(`row ${next++}`);
    }
    expect(next - 1).toBe(commits);
    await root.close();
  });
});
