/**
 * The number of a run in the full-text index: 53 bits of a hash of its id (two lanes of multiplication and
 * rotation). In one of 18,000 databases with a million runs, two runs have the same number. Then a search may list
 * a run that has no match. Pure; any thread.
 */

/** Computes the number of a run. @returns a number above 0; 0 for null, which means no run */
export function runKey(runId: string | null): number {
  if (runId === null) return 0;
  let low = 0xdeadbeef;
  let high = 0x41c6ce57;
  for (let at = 0; at < runId.length; at++) {
    const code = runId.charCodeAt(at);
    low = Math.imul(low ^ code, 2_654_435_761);
    high = Math.imul(high ^ code, 1_597_334_677);
  }
  low = Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  high = Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  return 4_294_967_296 * (high & 0x1fffff) + (low >>> 0) || 1;
}
