/**
 * Tables that are used for the first time within a write transaction, in a file where they exist and in one where
 * they do not.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'first-use-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe.each(['disk', 'process'] as const)('a store with the durability %s', (durability) => {
  const open = () => new LmdbTables(join(folder, 'rows.mdb'), durability);

  it('reads and writes tables that are missing', async () => {
    const tables = open();
    const found = await tables.transact((transaction) => {
      const before = [transaction.get('first', ['a']), transaction.get('second', ['a'])];
      transaction.write({ op: 'put', table: 'third', row: ['a'], value: 1 });
      return [...before, transaction.get('third', ['a'])];
    });
    expect(found).toEqual([undefined, undefined, 1]);
    await tables.close();
  });

  it('reads and lists existing tables', async () => {
    const first = open();
    await first.transact(({ write }) => write({ op: 'put', table: 'kept', row: ['a'], value: 1 }));
    await first.transact(({ write }) => write({ op: 'put', table: 'listed', row: ['b'], value: 2 }));
    await first.close();
    const second = open();
    let runs = 0;
    const found = await second.transact((transaction) => {
      runs++;
      const kept = transaction.get('kept', ['a']);
      transaction.write({ op: 'add', table: 'counted', row: ['c'], counts: { times: 1 } });
      return [kept, [...transaction.range('listed', { prefix: [] })].map(({ value }) => value)];
    });
    expect(found).toEqual([1, [2]]);
    expect(runs).toBeGreaterThan(0);
    expect(second.get('counted', ['c'])).toEqual({ times: 1 });
    await second.close();
  });

  it('reads and writes tables that a failed transaction used first', async () => {
    const first = open();
    await first.transact(({ write }) => write({ op: 'put', table: 'kept', row: ['a'], value: 1 }));
    await first.close();
    const second = open();
    const failing = second.transact((transaction) => {
      transaction.get('kept', ['a']);
      transaction.get('missing', ['a']);
      throw new Error('not found');
    });
    await expect(failing).rejects.toThrow('not found');
    const found = await second.transact((transaction) => {
      transaction.write({ op: 'put', table: 'missing', row: ['a'], value: 2 });
      return [transaction.get('kept', ['a']), transaction.get('missing', ['a'])];
    });
    expect(found).toEqual([1, 2]);
    expect([second.get('kept', ['a']), second.get('missing', ['a'])]).toEqual([1, 2]);
    await second.close();
  });
});
