/**
 * Reads pages of lists, newest first. The last part of a row's key is an id, and ids sort by creation time. The length
 * of a list is stored and updated with each change, so rows need not be counted. Any thread.
 */
import { LIST_COUNTS } from '../../domain/audit-rows.ts';
import type { RowKey } from '../../runtime/protocol.ts';
import type { Listing, Page } from '../ports/page.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

/** Reads a page of a list whose rows are counted by {@link countRow}, newest first. */
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

/** Changes the stored length of a list. Call it for every row that is added to the list (1) or removed from it (-1). */
export function countRow(tx: TableTransaction, table: string, prefix: RowKey, by: 1 | -1): void {
  tx.write({ op: 'add', table: LIST_COUNTS, row: [table, ...prefix], counts: { n: by } });
}

/** Returns the stored length of a list, which {@link countRow} has counted. */
export function countRows(tables: TableReader, table: string, prefix: RowKey): number {
  return tables.get<{ n: number }>(LIST_COUNTS, [table, ...prefix])?.n ?? 0;
}
