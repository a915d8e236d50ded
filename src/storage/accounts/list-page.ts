/**
 * Reads pages of lists, newest first. The keys of a list end with a time and a part that distinguishes equal times. Any
 * thread.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PAGE_SCAN_ROWS } from '../../limits.ts';
import type { RowKey } from '../../runtime/protocol.ts';
import type { ListPlace, OldestFirst, ScannedPage } from '../ports/page.ts';
import type { Row, TableReader, Tables } from '../tables.ts';

/** Maximum number of rows that are read before other requests get a turn. */
export const PAGE_SLICE_ROWS = 100;

export interface ListRange {
  table: string;
  prefix: readonly (string | number)[];
  /** Parts of a key after the prefix; null: start with the newest. */
  after: readonly (string | number)[] | null;
  /** Minimum of the milliseconds in the key's first part after the prefix; -Infinity: no bound. */
  from_ms: number;
  limit: number;
}

/**
 * Reads at most PAGE_SCAN_ROWS rows. If few of them match, the page is short, and the next page continues after the
 * last row that was read. Other requests run after each PAGE_SLICE_ROWS rows.
 * @param also further tables that `read` reads, in the same snapshot
 * @param read returns undefined to skip a row
 */
export async function readListPage<Value, Item>(
  tables: Pick<Tables, 'snapshot'>,
  { table, prefix, after, from_ms, limit }: ListRange,
  also: readonly string[],
  read: (row: Row<Value>, reader: TableReader) => Item | undefined,
): Promise<ScannedPage<Item>> {
  const found: Item[] = [];
  let looked = 0;
  let last: ListPlace | null = null;
  /** Reads one slice of rows. Returns whether there may be more rows after the slice. */
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

/** A row of a list by time, and its place, after which the next portion begins. */
interface OldRow<Value> extends Row<Value> {
  place: ListPlace;
}

/**
 * Reads the oldest rows after a place, at most `limit`, and returns those of a time before `before_ms`, oldest first.
 * @param prefix the key's parts before the time
 */
export function readOldest<Value>(
  tables: TableReader,
  table: string,
  prefix: RowKey,
  { before_ms, after, limit }: Pick<OldestFirst, 'before_ms' | 'after' | 'limit'>,
): OldRow<Value>[] {
  const range = { prefix, limit, ...(after === null ? {} : { after: [...prefix, ...after] }) };
  return [...tables.range<Value>(table, range)]
    .map((row) => ({ ...row, place: row.row.slice(prefix.length) }))
    .filter(({ place }) => (place[0] as number) < before_ms);
}

/** Lists the organizations with a row in a table. Costs one seek for each organization, whatever its number of rows. */
export function* listOrganizationsIn(tables: TableReader, table: string): Iterable<string> {
  let after: RowKey | undefined;
  for (;;) {
    const range = { prefix: [], limit: 1, ...(after === undefined ? {} : { after }) };
    let found: string | undefined;
    for (const { row } of tables.range(table, range)) found = String(row[0]);
    if (found === undefined) return;
    yield found;
    // The smallest name after all keys that begin with this name.
    after = [`${found}\0`];
  }
}
