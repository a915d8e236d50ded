/** A page of a list, newest first: rows whose last key part is an id, which sorts by the time it was made. */
import type { RowKey } from '../../runtime/protocol.ts';
import type { TableReader } from '../tables.ts';

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

/** @param keep only these rows; the total counts them alone */
export function readNewest<Value>(
  tables: TableReader,
  table: string,
  prefix: RowKey,
  { limit, offset }: Page,
  keep: (value: Value) => boolean = () => true,
): Listing<Value> {
  const items: Value[] = [];
  let total = 0;
  for (const { value } of tables.range<Value>(table, { prefix, reverse: true })) {
    if (!keep(value)) continue;
    if (total >= offset && items.length < limit) items.push(value);
    total++;
  }
  return { items, total };
}
