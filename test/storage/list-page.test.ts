/**
 * A page of a list with a filter that few or no rows pass. The work for a page is bounded, the page always has a cursor
 * if rows follow, and no row is listed twice.
 */
import { expect, it } from 'vitest';
import { PAGE_SCAN_ROWS } from '../../src/limits.ts';
import { type ListRange, PAGE_SLICE_ROWS, readListPage } from '../../src/storage/accounts/list-page.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import type { Row } from '../../src/storage/tables.ts';

const ROWS = 2 * PAGE_SCAN_ROWS + 150;

async function fill(): Promise<MemoryTables> {
  const tables = new MemoryTables();
  await tables.transact((transaction) => {
    for (let n = 0; n < ROWS; n++) {
      transaction.write({ op: 'put', table: 'list', row: ['org', n >> 1, `r${n}`], value: n });
      transaction.write({ op: 'put', table: 'list', row: ['other', n, `r${n}`], value: n });
      transaction.write({ op: 'put', table: 'facts', row: [n], value: { n } });
    }
  });
  return tables;
}

const RANGE: ListRange = { table: 'list', prefix: ['org'], after: null, from_ms: -1, limit: 50 };

/** Reads all pages, and counts the rows that each examined. */
async function readAll(tables: MemoryTables, range: ListRange, passes: (n: number) => boolean) {
  const found: number[] = [];
  const looked: number[] = [];
  let after: ListRange['after'] = range.after;
  do {
    let rows = 0;
    const page = await readListPage<number, number>(
      tables,
      { ...range, after },
      ['facts'],
      ({ value }: Row<number>, reader) => {
        rows++;
        const { n } = reader.get<{ n: number }>('facts', [value])!;
        return passes(n) ? n : undefined;
      },
    );
    found.push(...page.found);
    looked.push(rows);
    after = page.last;
  } while (after !== null);
  return { found, looked };
}

it('a page reads a limited number of rows when no row passes', async () => {
  const { found, looked } = await readAll(await fill(), RANGE, () => false);
  expect(found).toEqual([]);
  expect(looked).toEqual([PAGE_SCAN_ROWS, PAGE_SCAN_ROWS, 150]);
});

it('pages return passing rows once, newest first, and end with the last row', async () => {
  const tables = await fill();
  const rare = await readAll(tables, RANGE, (n) => n % 350 === 3);
  expect(rare.found).toEqual([703, 353, 3]);
  const all = await readAll(tables, { ...RANGE, limit: PAGE_SLICE_ROWS }, () => true);
  expect(all.found).toEqual(Array.from({ length: ROWS }, (_, at) => ROWS - 1 - at).sort(newestFirst));
  // The last page is full, and no empty page follows it.
  const even = await readAll(tables, { ...RANGE, limit: 50 }, () => true);
  expect(even.looked).toEqual(Array.from({ length: ROWS / 50 }, () => 50));
});

it('a page stops at the first row that is too old', async () => {
  const { found, looked } = await readAll(await fill(), { ...RANGE, from_ms: ROWS / 2 - 10 }, () => true);
  expect(found).toHaveLength(20);
  expect(looked).toEqual([20]);
});

it('a page lets other work run between slices', async () => {
  const tables = await fill();
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await readListPage(tables, RANGE, [], () => undefined);
  isOver = true;
  expect(turns).toBeGreaterThanOrEqual(PAGE_SCAN_ROWS / PAGE_SLICE_ROWS - 1);
});

/** Orders rows newest first. Rows with the same time are ordered by their names. */
function newestFirst(a: number, b: number): number {
  return (b >> 1) - (a >> 1) || (`r${a}` < `r${b}` ? 1 : -1);
}
