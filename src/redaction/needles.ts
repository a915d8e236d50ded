/** Where given byte strings stand. Pure; any thread. */
import { byteEngine, packNeedles } from '../../native/byte-engine.ts';
import { type ByteRange, mergeRanges } from './byte-range.ts';
import { type Work, WorkExceededError } from './work.ts';

/**
 * Every place where one of the needles stands.
 * @param needles byte strings to look for
 * @returns ranges in rising order, not overlapping
 * @throws {WorkExceededError}
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

/** The first place of one of the needles; -1. @throws {WorkExceededError} when the bytes are made to take too long */
export function findAny(bytes: Uint8Array, packed: Uint8Array, from: number, to: number): number {
  const hit = byteEngine.findAnyNeedle(bytes, from, to, packed);
  if (hit < -1) throw new WorkExceededError();
  return hit;
}

/** How much of the needle its first bytes end with, for each number of them (Knuth, Morris and Pratt). */
function measureBorders(needle: Uint8Array): Uint32Array {
  const borders = new Uint32Array(needle.length + 1);
  let same = 0;
  for (let i = 1; i < needle.length; i++) {
    while (same > 0 && needle[i] !== needle[same]) same = borders[same]!;
    if (needle[i] === needle[same]) same++;
    borders[i + 1] = same;
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
  // What begins before `to` may end beyond.
  const end = Math.min(bytes.length, to + needle.length - 1);
  work.add(needle.length + Math.max(0, end - from));
  let same = 0;
  for (let at = from; at < end; at++) {
    while (same > 0 && bytes[at] !== needle[same]) same = borders[same]!;
    if (bytes[at] === needle[same]) same++;
    if (same < needle.length) continue;
    found.push({ start: at + 1 - same, end: at + 1 });
    same = 0;
  }
}

/** How many of the needle's first bytes the bytes end with; 0 to one less than all of them. */
export function measureCutNeedle(bytes: Uint8Array, needle: Uint8Array, work: Work): number {
  const from = Math.max(0, bytes.length - needle.length + 1);
  work.add(2 * needle.length);
  const borders = measureBorders(needle);
  let same = 0;
  for (let at = from; at < bytes.length; at++) {
    while (same > 0 && bytes[at] !== needle[same]) same = borders[same]!;
    if (bytes[at] === needle[same]) same++;
  }
  return same;
}
