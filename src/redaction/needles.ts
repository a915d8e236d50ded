/** Where given byte strings stand. Pure; any thread. */
import { type ByteRange, mergeRanges } from './byte-range.ts';

/**
 * Every place where one of the needles stands.
 * @param needles byte strings to look for
 * @returns ranges in rising order, not overlapping
 */
export function findNeedles(
  bytes: Buffer,
  needles: readonly Buffer[],
  from = 0,
  to = bytes.length,
): ByteRange[] {
  const found: ByteRange[] = [];
  for (const needle of needles) {
    let hit = bytes.indexOf(needle, from);
    while (hit >= 0 && hit < to) {
      found.push({ start: hit, end: hit + needle.length });
      hit = bytes.indexOf(needle, hit + needle.length);
    }
  }
  return found.length > 1 ? mergeRanges(found) : found;
}
