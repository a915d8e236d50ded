/**
 * How long background work of the capture reader rests after a piece of work. If the machine has no spare time, the work
 * leaves most of it to processes that serve. A lower priority of the whole process would also delay its answers: at nice
 * 10, it gets a tenth of the time of each busy thread. Pure; capture reader.
 */

/** If a piece took this many times its processor time, other processes wanted the same cores. */
const CONTENDED_TIMES = 1.25;
/** Then it rests for this many times the time that it took. */
const REST_TIMES = 4;
/** Shorter pieces are not judged: clocks of processor time are coarse. */
const JUDGED_MS = 2;
const REST_MAX_MS = 500;

/**
 * @param tookMs time that the piece took
 * @param cpuMs processor time of the process during that time
 */
export function chooseRest(tookMs: number, cpuMs: number): number {
  if (tookMs < JUDGED_MS || tookMs <= CONTENDED_TIMES * cpuMs) return 0;
  return Math.min(REST_MAX_MS, REST_TIMES * tookMs);
}
