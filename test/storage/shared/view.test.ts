/** A view in an LMDB file while all rows are loaded into it again. Test thread. */
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createPrng, type Prng } from '../../../src/std/prng.ts';
import { packr } from '../../../src/storage/lmdb/changes.ts';
import { listTables } from '../../../src/storage/lmdb/deletion-mark.ts';
import { Environment } from '../../../src/storage/lmdb/environment.ts';
import { databaseOf } from '../../../src/storage/lmdb/tables.ts';
import { LmdbView } from '../../../src/storage/lmdb/view.ts';
import { encodeRowKey } from '../../../src/storage/row-key.ts';
import type { StoredRow } from '../../../src/storage/shared/truth.ts';
import { makeFolder } from '../folder.ts';

const SEED = Number(process.env.SEED ?? 7);
const TABLES = ['empty', 'a', 'b', 'many'];

/** Values by table and key. */
type Content = Record<string, Record<string, unknown>>;

function makeContent(random: Prng): Content {
  const content: Content = {};
  for (const table of TABLES) {
    if (random.chance(0.3)) continue;
    const rows: Record<string, unknown> = {};
    const count = table === 'many' ? 2_600 : random.below(40);
    for (let n = 0; n < count; n++) {
      const key = random.below(table === 'many' ? 4_000 : 50);
      rows[`k${key}`] = random.chance(0.5) ? key : random.below(1e6);
    }
    content[table] = rows;
  }
  return content;
}

function toRows(content: Content): StoredRow[] {
  return Object.entries(content)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([table, rows]) =>
      Object.entries(rows)
        .map(([key, value]) => ({
          table: databaseOf(table),
          key: encodeRowKey([key]),
          value: packr.pack(value),
        }))
        .sort((a, b) => a.key.compare(b.key)),
    );
}

function readContent(view: LmdbView): Content {
  return view.tables.snapshot(TABLES, (reader) =>
    Object.fromEntries(
      TABLES.flatMap((table) => {
        const rows = [...reader.range(table, { prefix: [] })].map(({ row, value }) => [`${row[0]}`, value]);
        return rows.length === 0 ? [] : [[table, Object.fromEntries(rows)]];
      }),
    ),
  );
}

const withoutEmpty = (content: Content): Content =>
  Object.fromEntries(Object.entries(content).filter(([, rows]) => Object.keys(rows).length > 0));

async function openView(path: string, key: Uint8Array | null): Promise<LmdbView> {
  const view = await LmdbView.open(path, 'identity', key);
  onTestFinished(() => view.close());
  return view;
}

/** Loads rows in pieces, and calls `look` after each piece. */
function fill(view: LmdbView, rows: readonly StoredRow[], random: Prng, look: () => void = () => {}): void {
  view.beginLoad();
  for (let at = 0; at < rows.length; ) {
    const next = at + 1 + random.below(1_200);
    view.fill(rows.slice(at, next));
    look();
    at = next;
  }
}

it.each([
  ['plain', null],
  ['encrypted', Buffer.alloc(32, 3)],
])('a %s view shows either all former rows or all new ones', async (_, key) => {
  for (let at = 0; at < 2; at++) {
    const random = createPrng(SEED * 10 + at);
    const path = join(makeFolder(), 'main.mdb');
    const view = await openView(path, key);
    const [former, present] = [makeContent(random), makeContent(random)];
    fill(view, toRows(former), random);
    view.endLoad({ position: 5, token: 'former' }, true);
    const { history } = view;
    expect(readContent(view)).toEqual(withoutEmpty(former));
    fill(view, toRows(present), random, () => {
      expect(readContent(view)).toEqual(withoutEmpty(former));
      expect(view.mark).toEqual({ position: 5, token: 'former' });
    });
    view.endLoad({ position: 3, token: 'present' }, true);
    expect(readContent(view)).toEqual(withoutEmpty(present));
    expect(view.mark).toEqual({ position: 3, token: 'present' });
    expect(view.history).not.toBe(history);
    expect(view.attempt(() => {})).toMatchObject({ base: 3, history: view.history });
    const kept = view.history;
    fill(view, toRows(former), random);
    view.endLoad({ position: 9, token: 'later' }, false);
    expect(view.attempt(() => {})).toMatchObject({ base: 9, history: kept });
    await view.close();
  }
});

it('the rows of an unfinished load are removed, and the former rows stay', async () => {
  const random = createPrng(SEED);
  const path = join(makeFolder(), 'main.mdb');
  const view = await openView(path, null);
  const former = { a: { x: 1, y: 2 }, b: { z: 3 } };
  fill(view, toRows(former), random);
  view.endLoad({ position: 5, token: 'former' }, true);
  fill(view, toRows({ a: { y: 4 } }), random);
  await view.close();
  const again = await openView(path, null);
  expect(again.mark).toEqual({ position: 5, token: 'former' });
  again.apply(toRows({ b: { z: 5 } }), { position: 6, token: 'next' });
  expect(readContent(again)).toEqual({ a: { x: 1, y: 2 }, b: { z: 5 } });
  const environment = Environment.open(path, 'process');
  onTestFinished(() => environment.close());
  expect(listTables(environment.root)).toContain('loading');
  expect([...environment.named('loading').getKeys({})]).toEqual([]);
});

it('rows out of order are refused, before anything changes', async () => {
  const view = await openView(join(makeFolder(), 'main.mdb'), null);
  const random = createPrng(SEED);
  const rows = toRows({ a: { x: 1, y: 2 }, b: { z: 3 } });
  fill(view, rows, random);
  view.endLoad({ position: 5, token: 'former' }, true);
  for (const wrong of [rows.toReversed(), [rows[0]!, rows[2]!, rows[1]!]]) {
    view.beginLoad();
    expect(() => view.fill(wrong)).toThrow(/out of order/);
  }
  expect(readContent(view)).toEqual({ a: { x: 1, y: 2 }, b: { z: 3 } });
});
