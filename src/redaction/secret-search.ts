/** All that must not be stored of a text: given byte strings, keys by their shape, and both in other writing. Pure; any thread. */
import type { ByteRange } from './byte-range.ts';
import { findEscapedSecrets } from './escaped-text.ts';
import { findKeyShapes } from './key-search.ts';
import { findAny, findNeedles } from './needles.ts';
import type { Work } from './work.ts';

/** What is looked for. */
export interface Wanted {
  readonly needles: readonly Uint8Array[];
  /** They as the byte engine takes them. */
  readonly packed: Uint8Array;
  /** Keys by their shape, too. */
  readonly shapes: boolean;
}

/**
 * @param from first byte to look at
 * @param to end of the search; what begins before it may end beyond
 * @returns ranges, those of one kind after those of the other
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

/** Ways of writing within each other that are read: UTF-16 with escapes of an URL in escapes of JSON. */
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

/** Those that are written as they are. */
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
