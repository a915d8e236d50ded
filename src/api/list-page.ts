/** A page of a list, newest first. Its keys end with a time and a part that tells equal times apart. Server threads. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PAGE_SCAN_ROWS } from '../limits.ts';
import type { Row, TableReader, Tables } from '../storage/tables.ts';

/** Rows of a page that are read before other requests have their turn. */
export const PAGE_SLICE_ROWS = 100;

interface ListPage<Item> {
  found: Item[];
  /** What the next page begins behind; null: no next page. */
  last: (string | number)[] | null;
  /** Rows that were looked at. */
  looked: number;
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
 * Looks at PAGE_SCAN_ROWS rows at most: where few pass, the page is short and has its end all the same. Other requests have
 * their turn after each PAGE_SLICE_ROWS of them.
 * @param also further tables that `read` reads, as of the same moment as the row
 * @param read undefined: passed over
 */
export async function readListPage<Value, Item>(
  tables: Pick<Tables, 'snapshot'>,
  { table, prefix, after, from_ms, limit }: ListRange,
  also: readonly string[],
  read: (row: Row<Value>, reader: TableReader) => Item | undefined,
): Promise<ListPage<Item>> {
  const found: Item[] = [];
  let looked = 0;
  let last: (string | number)[] | null = null;
  /** @returns whether there may be more behind the slice */
  const readSlice = (reader: TableReader): boolean => {
    const begun = looked;
    const place = last ?? after;
    const range = { prefix, reverse: true, ...(place === null ? {} : { after: [...prefix, ...place] }) };
    for (const row of reader.range<Value>(table, range)) {
      const at = row.row.slice(prefix.length);
      if ((at[0] as number) < from_ms) return false;
      if (found.length === limit || looked - begun === PAGE_SLICE_ROWS) return true;
      looked++;
      last = at;
      const item = read(row, reader);
      if (item !== undefined) found.push(item);
    }
    return false;
  };
  while (tables.snapshot([table, ...also], readSlice)) {
    if (found.length === limit || looked >= PAGE_SCAN_ROWS) return { found, last, looked };
    await nextTurn();
  }
  return { found, last: null, looked };
}
