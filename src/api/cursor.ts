/**
 * Cursors of lists: the end of the last page, as a text that callers send back unchanged. Server
 * threads.
 */
import { valueViolation } from '../contract/violation.ts';

/**
 * Writes a cursor.
 * @param place the parts of the last row's key that {@link readCursor} returns again
 */
export function writeCursor(place: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/**
 * Reads a cursor.
 * @param kinds the required type of each part: a number, or the maximum number of characters of a text, which
 *   must fit into a key
 * @returns the parts of the last row's key; null without a cursor, or for an empty one
 * @throws SchemaViolation for a value that is not a cursor with parts of these types
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

/** Whether a part of a cursor can be a part of a row's key: a finite number, or a text that is short enough. */
function isKeyPart(part: unknown, kind: 'number' | { max: number }): boolean {
  if (kind === 'number') return typeof part === 'number' && Number.isFinite(part);
  return typeof part === 'string' && part.length <= kind.max && part.isWellFormed();
}
