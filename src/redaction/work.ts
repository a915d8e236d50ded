/**
 * Counts and bounds the work of the search for secrets, so that no text can take more than its share of a thread. The
 * unit is examined bytes, not time, so that the same text always gives the same result. Pure; any thread.
 */

/** A text exceeded its share of work. It cannot be stored, because its content is unknown. */
export class WorkExceededError extends Error {
  constructor() {
    super('searching the text for secrets takes more work than allowed');
    this.name = 'WorkExceededError';
  }
}

/** The work on one text, or on one whole exchange. */
export class Work {
  /** Examined bytes, without those that the byte engine skips at full speed. */
  done = 0;
  #most: number;

  /** @param most default: unlimited */
  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  /** Allows more work. */
  allow(bytes: number): void {
    this.#most += bytes;
  }

  /** Counts work. @throws {WorkExceededError} when the limit is exceeded */
  add(bytes: number): void {
    this.done += bytes;
    if (this.done > this.#most) throw new WorkExceededError();
  }
}
