/** One suite for the tables of all stores. Test thread. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JournalStore, JournalWrite } from '../../src/runtime/journal.ts';
import type { RowKey, RowWrite } from '../../src/runtime/protocol.ts';
import { createPrng } from '../../src/std/prng.ts';
import type { Tables } from '../../src/storage/tables.ts';

/** Opens the same store, each time it is called. */
export interface OpenTables {
  open(): Tables | Promise<Tables>;
  /** The journal of the same rows. */
  journal(): JournalStore | Promise<JournalStore>;
}

/** Defines the suite for one kind of store. @param prepare makes an empty store */
export function describeTables(name: string, prepare: () => OpenTables | Promise<OpenTables>): void {
  describe(`tables in ${name}`, () => {
    let open: OpenTables['open'];
    let journalOf: OpenTables['journal'];
    let tables: Tables;

    beforeEach(async () => {
      ({ open, journal: journalOf } = await prepare());
      tables = await open();
    });
    afterEach(() => tables.close());

    const put = (row: RowKey, value: unknown, table = 't') =>
      tables.transact((tx) => tx.write({ op: 'put', table, row, value }));

    it('return stored rows, also after they were opened again', async () => {
      const value = { text: 'ä\0😀', list: [1, null, true, { deep: -1.5 }], big: 2 ** 40 };
      await put(['org', 'run', 7], value);
      expect(tables.get('t', ['org', 'run', 7])).toEqual(value);
      await tables.close();
      tables = await open();
      expect(tables.get('t', ['org', 'run', 7])).toEqual(value);
      expect(tables.get('t', ['org', 'run', 8])).toBeUndefined();
      expect(tables.get('other', ['org', 'run', 7])).toBeUndefined();
    });

    it('list the rows of a prefix in both directions, starting after a page', async () => {
      await tables.transact((tx) => {
        for (const org of ['a', 'aa', 'b'])
          for (let n = 0; n < 5; n++) tx.write({ op: 'put', table: 't', row: [org, n], value: n });
      });
      const numbers = (range: Parameters<Tables['range']>[1]) =>
        [...tables.range<number>('t', range)].map(({ row, value }) => {
          expect(row[0]).toBe('a');
          return value;
        });
      expect(numbers({ prefix: ['a'] })).toEqual([0, 1, 2, 3, 4]);
      expect(numbers({ prefix: ['a'], reverse: true })).toEqual([4, 3, 2, 1, 0]);
      expect(numbers({ prefix: ['a'], after: ['a', 1], limit: 2 })).toEqual([2, 3]);
      expect(numbers({ prefix: ['a'], after: ['a', 3], reverse: true, limit: 2 })).toEqual([2, 1]);
      expect(numbers({ prefix: ['a'], limit: 0 })).toEqual([]);
      expect([...tables.range('t', { prefix: [] })]).toHaveLength(15);
    });

    it('remove the rows of a range in the transaction that stores their content elsewhere', async () => {
      await tables.transact((tx) => {
        for (const org of ['a', 'aa'])
          for (let n = 0; n < 6; n++) tx.write({ op: 'put', table: 't', row: [org, n], value: n });
      });
      const journal = await journalOf();
      const rows: RowWrite[] = [
        { op: 'put', table: 'u', row: ['a', 4], value: [2, 3, 4] },
        { op: 'clear', table: 't', row: ['a', 2], end: ['a', 5] },
      ];
      const writes: JournalWrite[] = [
        { type: 'event', kind: 'run', key: 'a', seq: 1, event: Buffer.from('e') },
        ...rows.map((row): JournalWrite => ({ type: 'row', kind: 'run', key: 'a', row })),
      ];
      expect(await new Promise((resolve) => journal.commit(writes, resolve))).toBeNull();
      const numbers = () => [...tables.range<number>('t', { prefix: [] })].map(({ row: [, n] }) => n);
      expect(numbers()).toEqual([0, 1, 5, 0, 1, 2, 3, 4, 5]);
      expect(tables.get('u', ['a', 4])).toEqual([2, 3, 4]);
      await journal.close();
      await tables.transact((tx) => tx.write({ op: 'clear', table: 't', row: ['a', 0], end: ['aa', 6] }));
      expect(numbers()).toEqual([]);
    });

    it('are read in a snapshot, which sees earlier commits and only the tables that it names', async () => {
      await tables.transact((tx) => {
        for (let n = 0; n < 50; n++) {
          tx.write({ op: 'put', table: 't', row: ['a', n], value: n });
          tx.write({ op: 'put', table: 'u', row: [n], value: { n } });
        }
      });
      const read = () =>
        tables.snapshot(['t', 'u', 'never written'], (reader) => {
          expect(reader.get('never written', ['a'])).toBeUndefined();
          return [...reader.range<number>('t', { prefix: ['a'], reverse: true })].map(
            ({ value }) => reader.get<{ n: number }>('u', [value])!.n,
          );
        });
      expect(read()).toEqual(Array.from({ length: 50 }, (_, at) => 49 - at));
      // A commit between two snapshots is visible in the second.
      await put(['a', 50], 7);
      expect(read()[0]).toBe(7);
      expect(() => tables.snapshot(['t'], (reader) => reader.get('u', [1]))).toThrow('no table u');
      expect(tables.get('u', [1])).toEqual({ n: 1 });
    });

    it('write nothing if the work throws, and throw its error', async () => {
      await put(['x'], 1);
      await expect(
        tables.transact((tx) => {
          tx.write({ op: 'put', table: 't', row: ['x'], value: 2 });
          tx.write({ op: 'remove', table: 't', row: ['x'] });
          throw new RangeError('no');
        }),
      ).rejects.toThrow(new RangeError('no'));
      expect(tables.get('t', ['x'])).toBe(1);
    });

    it('let a transaction read what it wrote, and run one after another', async () => {
      await Promise.all(
        Array.from({ length: 50 }, () =>
          tables.transact((tx) => {
            const before = tx.get<number>('t', ['n']) ?? 0;
            tx.write({ op: 'put', table: 't', row: ['n'], value: before + 1 });
            expect(tx.get('t', ['n'])).toBe(before + 1);
          }),
        ),
      );
      expect(tables.get('t', ['n'])).toBe(50);
    });

    it('store rows with events, and add up counters', async () => {
      const journal = await journalOf();
      const commit = (n: number) =>
        new Promise<Error | null>((resolve) =>
          journal.commit(
            [
              { type: 'event', kind: 'k', key: 'a', seq: n, event: Buffer.from(`e${n}`) },
              { type: 'row', kind: 'k', key: 'a', row: { op: 'put', table: 't', row: ['last'], value: n } },
              {
                type: 'row',
                kind: 'k',
                key: 'a',
                row: { op: 'add', table: 'u', row: ['org', '2026-01-01'], counts: { steps: 1, tokens: n } },
              },
            ],
            resolve,
          ),
        );
      for (let n = 1; n <= 4; n++) expect(await commit(n)).toBeNull();
      expect(tables.get('t', ['last'])).toBe(4);
      expect(tables.get('u', ['org', '2026-01-01'])).toEqual({ steps: 4, tokens: 10 });
      expect((await journal.load('k', 'a')).events).toHaveLength(4);
      await journal.close();
    });

    it('apply the counts of a commit in order, even if they name the same row several times', async () => {
      const journal = await journalOf();
      const random = createPrng(7);
      const names = ['a', 'b\0', 'b'];
      const expected = new Map<string, Record<string, number>>();
      let seq = 0;
      for (let round = 0; round < 40; round++) {
        const writes: JournalWrite[] = [
          { type: 'event', kind: 'k', key: 'a', seq: ++seq, event: Buffer.from('e') },
        ];
        for (let i = 0; i < 8; i++) {
          const name = names[random.below(names.length)]!;
          const by = random.below(5);
          const what = random.float();
          const field = random.chance(0.5) ? 'steps' : 'tokens';
          const place = { table: 'u', row: ['org', name] };
          let row: RowWrite = { op: 'add', ...place, counts: { [field]: by } };
          if (what < 0.15) {
            row = { op: 'put', ...place, value: { steps: by } };
            expected.set(name, { steps: by });
          } else if (what < 0.3) {
            row = { op: 'remove', ...place };
            expected.delete(name);
          } else {
            const counts = expected.get(name) ?? {};
            expected.set(name, { ...counts, [field]: (counts[field] ?? 0) + by });
          }
          writes.push({ type: 'row', kind: 'k', key: 'a', row });
        }
        expect(await new Promise((resolve) => journal.commit(writes, resolve))).toBeNull();
        for (const name of names) expect(tables.get('u', ['org', name])).toEqual(expected.get(name));
      }
      await journal.close();
    });
  });
}
