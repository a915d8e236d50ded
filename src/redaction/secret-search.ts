/**
 * Finds everything in a text that must not be stored: given byte strings, keys by their shape, and both in other
 * encodings. Pure; any thread.
 */
import type { ByteRange } from './byte-range.ts';
import { findEscapedSecrets } from './escaped-text.ts';
import { findKeyShapes } from './key-search.ts';
import { findAny, findNeedles } from './needles.ts';
import type { Work } from './work.ts';

/** The secrets to search for. */
export interface Wanted {
  readonly needles: readonly Uint8Array[];
  /** The needles in the byte engine's form. */
  readonly packed: Uint8Array;
  /** Whether to find keys by their shape, too. */
  readonly shapes: boolean;
}

/**
 * Finds the secrets of a text, encoded or not.
 * @param from first byte to examine
 * @param to end of the search; a match that begins before the end may reach beyond the end
 * @returns ranges, grouped by kind
 * @throws {import('./work.ts').WorkExceededError}
 */
export function findSecrets(
  bytes: Uint8Array,
  wanted: Wanted,
  work: Work,
  from = 0,
  to = bytes.length,
): ByteRange[] {
  if (wanted.needles.length === 0 && !wanted.shapes) return [];
  return findWritten(bytes, wanted, work, from, to, 0);
}

/** Maximum number of nested encodings that are decoded, for example UTF-16 with URL escapes in JSON escapes. */
const WRITINGS = 3;

function findWritten(
  bytes: Uint8Array,
  wanted: Wanted,
  work: Work,
  from: number,
  to: number,
  depth: number,
): ByteRange[] {
  const search = (text: Buffer): readonly ByteRange[] =>
    findWritten(text, wanted, work, 0, text.length, depth + 1);
  const escaped = depth < WRITINGS ? findEscapedSecrets(bytes, search, work, from, to) : [];
  const plain = findPlain(bytes, wanted, work, from, to);
  return escaped.length === 0 ? plain : plain.concat(escaped);
}

/** Finds secrets that are not encoded. */
function findPlain(
  bytes: Uint8Array,
  { needles, packed, shapes }: Wanted,
  work: Work,
  from = 0,
  to = bytes.length,
): ByteRange[] {
  const found = findAny(bytes, packed, from, to) < 0 ? [] : findNeedles(bytes, needles, work, from, to);
  return shapes ? found.concat(findKeyShapes(bytes, from, to, undefined, work)) : found;
}
