/**
 * How long the capture reader pauses after each piece of background work. If the processors are
 * busy, it leaves most of their time to processes that serve requests. A lower priority of the
 * whole process would also delay its answers: at nice 10, a process gets a tenth of the processor
 * time of a busy thread. Pure; capture reader.
 */

/**
 * If a piece took more than this many times its processor time, the cores are busy with other
 * processes.
 */
const CONTENDED_TIMES = 1.25;
/** If the cores are busy, the pause is this many times as long as the piece took, at most REST_MAX_MS. */
const REST_TIMES = 4;
/** Shorter pieces are not judged: clocks of processor time are coarse. */
const JUDGED_MS = 2;
const REST_MAX_MS = 500;

/**
 * Chooses the pause after a piece of background work, in milliseconds; 0: no pause.
 * @param tookMs time that the piece took
 * @param cpuMs processor time of the process during that time
 */
export function chooseRest(tookMs: number, cpuMs: number): number {
  if (tookMs < JUDGED_MS || tookMs <= CONTENDED_TIMES * cpuMs) return 0;
  return Math.min(REST_MAX_MS, REST_TIMES * tookMs);
}
