/** Row keys, and the tables of stores that need no server. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JournalStore } from '../../src/runtime/journal.ts';
import type { RowKey } from '../../src/runtime/protocol.ts';
import { LmdbJournal } from '../../src/storage/lmdb/journal.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { MemoryJournal } from '../../src/storage/memory/journal.ts';
import { type MemoryTableDisk, MemoryTables } from '../../src/storage/memory/tables.ts';
import { MemoryTruth } from '../../src/storage/memory/truth.ts';
import { decodeRowKey, encodePrefixEnd, encodeRowKey } from '../../src/storage/row-key.ts';
import { SplitJournal } from '../../src/storage/split-journal.ts';
import type { Tables } from '../../src/storage/tables.ts';
import { SharedBox } from './shared/shared-box.ts';
import { describeTables } from './tables-suite.ts';

const part = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  fc.constantFrom('', '\0', '\0\0a', 'a\0', '\u00ff'),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
);
const keys = fc.array(part, { minLength: 1, maxLength: 4 });

function compareParts(a: RowKey, b: RowKey): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const [x, y] = [a[i]!, b[i]!];
    if (typeof x !== typeof y) return typeof x === 'number' ? -1 : 1;
    const order =
      typeof x === 'number' ? x - (y as number) : Buffer.compare(Buffer.from(x), Buffer.from(y as string));
    if (order !== 0) return Math.sign(order);
  }
  return Math.sign(a.length - b.length);
}

describe('row keys', () => {
  it('can be decoded from their bytes', () => {
    fc.assert(
      fc.property(keys, (key) => {
        const plain = key.map((value) => (value === 0 ? 0 : value));
        expect(decodeRowKey(encodeRowKey(key))).toEqual(plain);
      }),
    );
  });

  it('are ordered like their parts', () => {
    fc.assert(
      fc.property(keys, keys, (a, b) => {
        expect(Math.sign(Buffer.compare(encodeRowKey(a), encodeRowKey(b)))).toBe(compareParts(a, b));
      }),
    );
  });

  it('are adjacent if they share their first parts', () => {
    fc.assert(
      fc.property(keys, keys, (prefix, rest) => {
        const longer = encodeRowKey([...prefix, ...rest]);
        expect(Buffer.compare(longer, encodeRowKey(prefix))).toBe(1);
        expect(Buffer.compare(longer, encodePrefixEnd(prefix))).toBe(-1);
      }),
    );
  });

  it('refuse values that have no order or that LMDB cannot store', () => {
    for (const bad of [[Number.NaN], [Infinity], ['\ud800'], ['x'.repeat(2_000)], []])
      expect(() => encodeRowKey(bad as RowKey)).toThrow(RangeError);
  });
});

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tables-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const STORES = [
  ...(['disk', 'process'] as const).map((durability) => ({
    name: `LMDB (${durability})`,
    prepare: () => {
      const path = join(folder, 'data', `${durability}.mdb`);
      return {
        open: (): Tables => new LmdbTables(path, durability),
        journal: (): JournalStore => new LmdbJournal(path, durability),
      };
    },
  })),
  {
    name: 'LMDB behind a redo log',
    prepare: () => {
      const path = join(folder, 'data', 'runs.mdb');
      const promises = {
        path: join(folder, 'data', 'runs.0.redo'),
        kinds: new Set(['run']),
        tables: new Set(['t', 'u']),
      };
      return {
        open: (): Tables => new LmdbTables(path, 'process'),
        journal: (): JournalStore => new LmdbJournal(path, 'process', promises),
      };
    },
  },
  {
    name: 'memory',
    prepare: () => {
      const disk: MemoryTableDisk = new Map();
      return {
        open: (): Tables => new MemoryTables(disk),
        journal: (): JournalStore => new MemoryJournal(new Map(), disk),
      };
    },
  },
  {
    name: 'a view of shared rows',
    prepare: () => SharedBox.prepareTables(join(folder, 'data', 'view.mdb'), new MemoryTruth()),
  },
];

for (const { name, prepare } of STORES) describeTables(name, prepare);

describe('a journal in two files', () => {
  it('stores each kind in its own file, commits both, and finds them again', async () => {
    const open = () =>
      new SplitJournal(
        new LmdbJournal(join(folder, 'main.mdb'), 'disk'),
        new LmdbJournal(join(folder, 'runs.mdb'), 'process'),
        new Set(['quick']),
      );
    let journal = open();
    const event = (kind: string) => ({
      type: 'event' as const,
      kind,
      key: 'a',
      seq: 1,
      event: Buffer.from(kind),
    });
    expect(
      await new Promise((resolve) => journal.commit([event('quick'), event('slow')], resolve)),
    ).toBeNull();
    await journal.close();
    journal = open();
    for (const kind of ['quick', 'slow']) {
      const { events } = await journal.load(kind, 'a');
      expect(events.map((bytes) => Buffer.from(bytes).toString())).toEqual([kind]);
    }
    await journal.close();
    const main = new LmdbJournal(join(folder, 'main.mdb'), 'disk');
    expect(main.load('quick', 'a').events).toEqual([]);
    await main.close();
  });

  it('reports the actors of both stores that have another owner', async () => {
    const stores = ['main', 'quick'].map((name) => {
      const inner = new MemoryJournal();
      const left: string[] = [];
      const store: JournalStore = {
        load: async (kind, key) => inner.load(kind, key),
        commit: (writes, done) => inner.commit(writes, (error) => done(error, [{ kind: name, key: 'lost' }])),
        letGo: (kind, key) => void left.push(`${kind} ${key}`),
        close: () => inner.close(),
      };
      return { store, left };
    });
    const [main, quick] = stores;
    const journal = new SplitJournal(main!.store, quick!.store, new Set(['quick']));
    const heard: unknown[] = [];
    journal.onLost = (addresses) => void heard.push(...addresses);
    for (const { store } of stores) store.onLost!([{ kind: 'any', key: 'a' }]);
    expect(heard).toHaveLength(2);
    const event = (kind: string) =>
      ({ type: 'event', kind, key: 'a', seq: 1, event: Buffer.from(kind) }) as const;
    const commit = (...kinds: string[]) =>
      new Promise((resolve) => journal.commit(kinds.map(event), (_error, lost) => resolve(lost)));
    const lostOf = (...kinds: string[]) => kinds.map((kind) => ({ kind, key: 'lost' }));
    expect(await commit('main')).toEqual(lostOf('main'));
    expect(await commit('quick')).toEqual(lostOf('quick'));
    expect(await commit('quick', 'main')).toEqual(expect.arrayContaining(lostOf('main', 'quick')));
    const loading = journal.load('quick', 'a');
    expect(loading).toBeInstanceOf(Promise);
    expect((await loading).events).toHaveLength(1);
    for (const kind of ['main', 'quick']) journal.letGo(kind, 'a');
    expect(stores.map(({ left }) => left)).toEqual([['main a'], ['quick a']]);
  });
});
