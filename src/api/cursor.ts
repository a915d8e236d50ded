/**
 * Cursors of lists: the end of the last page, as a text that callers send back unchanged. Server
 * threads.
 */
import { valueViolation } from '../contract/violation.ts';

/** @param place the last parts of a row's key */
export function writeCursor(place: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/**
 * @param kinds the required type of each part: a number, or the maximum number of characters of a text, which
 *   must fit into a key
 * @returns null without a cursor
 * @throws SchemaViolation for a value that no page returned
 */
export function readCursor(
  cursor: string | null | undefined,
  kinds: readonly ('number' | { max: number })[],
): (string | number)[] | null {
  if (cursor === null || cursor === undefined || cursor === '') return null;
  const place = parse(cursor);
  const isPlace =
    Array.isArray(place) &&
    place.length === kinds.length &&
    kinds.every((kind, at) => isKeyPart(place[at], kind));
  if (!isPlace) throw valueViolation(['query', 'cursor'], 'not a cursor of this list', cursor);
  return place as (string | number)[];
}

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return null;
  }
}

/** The possible parts of a row's key. */
function isKeyPart(part: unknown, kind: 'number' | { max: number }): boolean {
  if (kind === 'number') return typeof part === 'number' && Number.isFinite(part);
  return typeof part === 'string' && part.length <= kind.max && part.isWellFormed();
}
