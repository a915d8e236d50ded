/** Finds given byte strings. Pure; any thread. */
import { byteEngine, packNeedles } from '../../native/byte-engine.ts';
import { type ByteRange, mergeRanges } from './byte-range.ts';
import { type Work, WorkExceededError } from './work.ts';

/**
 * Finds the needles that begin in [from, to). After an occurrence of a needle, the search for that needle continues
 * behind the occurrence.
 * @returns ranges in ascending order; overlapping ones are merged
 * @throws {WorkExceededError} when the search would take too long
 */
export function findNeedles(
  bytes: Uint8Array,
  needles: readonly Uint8Array[],
  work: Work,
  from = 0,
  to = bytes.length,
): ByteRange[] {
  const found: ByteRange[] = [];
  for (const needle of needles) {
    const first = findAny(bytes, packNeedles([needle]), from, to);
    if (first >= 0) findNeedle(bytes, needle, first, to, found, work);
  }
  return found.length > 1 ? mergeRanges(found) : found;
}

/**
 * Finds the first occurrence of one of the needles; -1 if no needle occurs.
 * @throws {WorkExceededError} when the search would take too long
 */
export function findAny(bytes: Uint8Array, packed: Uint8Array, from: number, to: number): number {
  const hit = byteEngine.findAnyNeedle(bytes, from, to, packed);
  if (hit < -1) throw new WorkExceededError();
  return hit;
}

/** Computes for each prefix of the needle the length of its longest border (Knuth, Morris and Pratt). */
function measureBorders(needle: Uint8Array): Uint32Array {
  const borders = new Uint32Array(needle.length + 1);
  let matched = 0;
  for (let i = 1; i < needle.length; i++) {
    while (matched > 0 && needle[i] !== needle[matched]) matched = borders[matched]!;
    if (needle[i] === needle[matched]) matched++;
    borders[i + 1] = matched;
  }
  return borders;
}

function findNeedle(
  bytes: Uint8Array,
  needle: Uint8Array,
  from: number,
  to: number,
  found: ByteRange[],
  work: Work,
): void {
  const borders = measureBorders(needle);
  // A match that begins before `to` may end after it.
  const end = Math.min(bytes.length, to + needle.length - 1);
  work.add(needle.length + Math.max(0, end - from));
  let matched = 0;
  for (let at = from; at < end; at++) {
    while (matched > 0 && bytes[at] !== needle[matched]) matched = borders[matched]!;
    if (bytes[at] === needle[matched]) matched++;
    if (matched < needle.length) continue;
    found.push({ start: at + 1 - matched, end: at + 1 });
    matched = 0;
  }
}

/** Computes the length of the longest proper prefix of the needle with which the bytes end. */
export function measureCutNeedle(bytes: Uint8Array, needle: Uint8Array, work: Work): number {
  const from = Math.max(0, bytes.length - needle.length + 1);
  work.add(2 * needle.length);
  const borders = measureBorders(needle);
  let matched = 0;
  for (let at = from; at < bytes.length; at++) {
    while (matched > 0 && bytes[at] !== needle[matched]) matched = borders[matched]!;
    if (bytes[at] === needle[matched]) matched++;
  }
  return matched;
}
