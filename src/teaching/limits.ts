/** Bounds of a teaching round that several of its parts share. Constants only; any thread. */

/** Bounds on the golden runs that a round reads, the newest first. */
export const DISTILL_BOUNDS = {
  /** Maximum number of steps in total, of steps of one run, and of bytes of their digests in memory. */
  steps: 20_000,
  steps_per_run: 1_000,
  steps_bytes: 32 << 20,
  /**
   * A round reads no older runs after this many consecutive runs that it could not use: runs that began before the
   * round's earliest time, runs of agents that have enough newer ones, and, once any agent has enough, unusable runs.
   */
  passed_over: 50_000,
  /**
   * Maximum number of times that a round starts again after it ran out of memory, each time with half of these bounds.
   */
  halvings: 6,
  /** Maximum number of patterns that are extracted from the runs. */
  patterns: 2_000,
} as const;
/**
 * Maximum size of a body that a round reads; a sixteenth of it for a compressed body, of which several copies are in
 * memory at once. Runs with a larger body are left out.
 */
export const DISTILL_BODY_BYTES = 8 << 20;
/**
 * Share of the golden runs, by the hashes of their ids, that is held out for measuring, and minimum number of these
 * runs.
 */
export const HELD_OUT = { share: 0.25, runs_min: 5 } as const;
