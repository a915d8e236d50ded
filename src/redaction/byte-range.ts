/** Ranges of bytes to be masked. Pure; any thread. */

/** A half-open range of byte offsets. */
export interface ByteRange {
  start: number;
  end: number;
}

/**
 * Sorts the given list in place, and merges overlapping ranges by extending the first of them. Adjacent ranges stay
 * separate.
 * @returns the merged ranges in ascending order
 */
export function mergeRanges(ranges: ByteRange[]): ByteRange[] {
  if (ranges.length < 2) return ranges;
  ranges.sort((a, b) => a.start - b.start || a.end - b.end);
  const merged: ByteRange[] = [ranges[0]!];
  for (let i = 1; i < ranges.length; i++) {
    const last = merged[merged.length - 1]!;
    const range = ranges[i]!;
    if (range.start < last.end) last.end = Math.max(last.end, range.end);
    else merged.push(range);
  }
  return merged;
}
