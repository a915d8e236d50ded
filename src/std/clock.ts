/**
 * The time, from an object that tests can replace: wall-clock time for people, monotonic time for durations and
 * deadlines. Any thread; monotonic times of different threads of a process can be compared.
 */

/** The clock for code that depends on time. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may jump. */
  wallMs(): number;
  /** Milliseconds since an arbitrary time, with fractions; monotonic, and the same in every thread. */
  monotonicMs(): number;
}

/** Reading both clocks takes less than this, unless the thread is interrupted in between. */
const SAME_MOMENT_MS = 0.02;

/** Measures the value of `process.hrtime`, in milliseconds, when `performance.now` is 0. */
function readOriginMs(): number {
  let origin = 0;
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 100 && least > SAME_MOMENT_MS; tries++) {
    const before = performance.now();
    const nowNs = process.hrtime.bigint();
    const took = performance.now() - before;
    if (took >= least) continue;
    least = took;
    origin = Number(nowNs) / 1e6 - before - took / 2;
  }
  return origin;
}

/**
 * Added to `performance.now`, which starts at 0 in each thread, to get a time that all threads share. `process.hrtime`
 * has that time, too, but takes three times as long.
 */
const ORIGIN_MS = readOriginMs();

/** The machine's clock. */
export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => ORIGIN_MS + performance.now(),
};

/** A clock that only changes when `advance` is called. */
interface ManualClock extends Clock {
  /** Adds `ms` (≥ 0) to both times. */
  advance(ms: number): void;
}

/**
 * Makes a clock for tests and simulations.
 * @param startWallMs wall-clock reading at the start, milliseconds since the epoch; monotonic time starts at 0
 */
export function createManualClock(startWallMs = 0): ManualClock {
  let elapsedMs = 0;
  return {
    wallMs: () => startWallMs + elapsedMs,
    monotonicMs: () => elapsedMs,
    advance(ms) {
      if (!(ms >= 0)) throw new RangeError(`a clock cannot go back by ${ms} ms`);
      elapsedMs += ms;
    },
  };
}
