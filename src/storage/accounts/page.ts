/**
 * Lists, newest first: rows whose last key part is an id, which sorts by the time it was made. How many there are is
 * counted as they come and go, so that a page costs as much in a long list as in a short one. Any thread.
 */
import { LIST_COUNTS } from '../../domain/audit-rows.ts';
import type { RowKey } from '../../runtime/protocol.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

export interface Page {
  /** ≥ 1 */
  limit: number;
  /** ≥ 0 */
  offset: number;
}

export interface Listing<Value> {
  items: Value[];
  /** Without the page. */
  total: number;
}

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

/** To be called with every row that comes into a list (1) or leaves it (-1). */
export function countRow(tx: TableTransaction, table: string, prefix: RowKey, by: 1 | -1): void {
  tx.write({ op: 'add', table: LIST_COUNTS, row: [table, ...prefix], counts: { n: by } });
}

/** Rows of a list. */
export function countRows(tables: TableReader, table: string, prefix: RowKey): number {
  return tables.get<{ n: number }>(LIST_COUNTS, [table, ...prefix])?.n ?? 0;
}
