/** A page of a list whose keys end with a time and what tells equal times apart, newest first. Server threads. */
import { PAGE_SCAN_ROWS } from '../limits.ts';
import type { Row, TableReader } from '../storage/tables.ts';

export interface ListPage<Item> {
  found: Item[];
  /** What the next page begins behind; null: there is none. */
  last: (string | number)[] | null;
}

export interface ListRange {
  table: string;
  prefix: readonly (string | number)[];
  /** Parts of a key behind the prefix; null: from the newest on. */
  after: readonly (string | number)[] | null;
  /** Of milliseconds in the key's first part behind the prefix; -Infinity: to the oldest. */
  from_ms: number;
  limit: number;
}

/**
 * Looks at PAGE_SCAN_ROWS rows at most: where few pass, the page is short and has its end all the same.
 * @param read undefined: passed over
 */
export function readListPage<Value, Item>(
  tables: TableReader,
  { table, prefix, after, from_ms, limit }: ListRange,
  read: (row: Row<Value>) => Item | undefined,
): ListPage<Item> {
  const found: Item[] = [];
  let looked = 0;
  let last: (string | number)[] | null = null;
  const range = { prefix, reverse: true, ...(after === null ? {} : { after: [...prefix, ...after] }) };
  for (const row of tables.range<Value>(table, range)) {
    const place = row.row.slice(prefix.length);
    if ((place[0] as number) < from_ms) return { found, last: null };
    if (found.length === limit || looked === PAGE_SCAN_ROWS) return { found, last };
    looked++;
    last = place;
    const item = read(row);
    if (item !== undefined) found.push(item);
  }
  return { found, last: null };
}
