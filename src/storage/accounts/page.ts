/**
 * Reads pages of lists, newest first. The last part of a row's key is an id, and ids sort by creation time. The length
 * of a list is stored and updated with each change, so rows need not be counted. Any thread.
 */
import { LIST_COUNTS } from '../../domain/audit-rows.ts';
import type { RowKey } from '../../runtime/protocol.ts';
import type { Listing, Page } from '../ports/page.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

/** A page of a list whose rows are counted by {@link countRow}. */
export function readNewest<Value>(
  tables: TableReader,
  table: string,
  prefix: RowKey,
  { limit, offset }: Page,
): Listing<Value> {
  const total = countRows(tables, table, prefix);
  if (offset >= total) return { items: [], total };
  const rows = tables.range<Value>(table, { prefix, reverse: true, offset, limit });
  return { items: [...rows].map(({ value }) => value), total };
}

/** Must be called for every row that is added to a list (1) or removed from it (-1). */
export function countRow(tx: TableTransaction, table: string, prefix: RowKey, by: 1 | -1): void {
  tx.write({ op: 'add', table: LIST_COUNTS, row: [table, ...prefix], counts: { n: by } });
}

/** Number of rows of a list. */
export function countRows(tables: TableReader, table: string, prefix: RowKey): number {
  return tables.get<{ n: number }>(LIST_COUNTS, [table, ...prefix])?.n ?? 0;
}
