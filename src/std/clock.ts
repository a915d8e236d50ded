/**
 * Time as a value that can be passed in: wall-clock time for people, monotonic time for durations and deadlines.
 * Any thread; monotonic readings of one process compare across its threads.
 */

/** Where code that decides by time reads it from. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may jump. */
  wallMs(): number;
  /** Milliseconds since some fixed moment, with fractions; never goes back; the same moment in every thread. */
  monotonicMs(): number;
}

/**
 * The machine's clock. `process.hrtime` rather than `performance.now`, whose zero differs from thread to thread.
 */
export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => {
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1000 + nanoseconds / 1e6;
  },
};

/** A clock that stands still until it is moved. */
export interface ManualClock extends Clock {
  /** Moves both readings forward by `ms` (≥ 0). */
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
