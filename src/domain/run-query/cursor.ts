/** The cursor of a searched list: its order and where the last page ended, as a text for the address. Pure; any thread. */
import type { PagePlace } from './page.ts';
import { NEWEST_FIRST, type SortOrder } from './run-query.ts';

export function writeRunCursor(sort: SortOrder | null, { key, started, stored, run_id }: PagePlace): string {
  return Buffer.from(JSON.stringify([nameOrder(sort), key, started, stored, run_id])).toString('base64url');
}

/**
 * Reads a cursor.
 * @returns null for a text that is not a cursor of a list in this order
 */
export function readRunCursor(sort: SortOrder | null, cursor: string): PagePlace | null {
  let read: unknown;
  try {
    read = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return null;
  }
  if (!Array.isArray(read) || read.length !== 5) return null;
  const [order, key, started, stored, run_id] = read as unknown[];
  if (order !== nameOrder(sort) || typeof run_id !== 'string') return null;
  return isNumber(key) && isNumber(started) && isNumber(stored) ? { key, started, stored, run_id } : null;
}

function isNumber(part: unknown): part is number {
  return typeof part === 'number' && Number.isFinite(part);
}

function nameOrder(sort: SortOrder | null): string {
  const { field, is_descending } = sort ?? NEWEST_FIRST;
  return is_descending ? field : `${field}-asc`;
}
