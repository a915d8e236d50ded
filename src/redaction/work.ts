/**
 * Counts and bounds the work of the search for secrets, so that no text can take more than its share
 * of a thread. It counts bytes looked at instead of time, so that the same text always gives the
 * same result. Pure; any thread.
 */

/** A text took more work than it may; it cannot be stored, since nobody knows what is in it. */
export class WorkExceededError extends Error {
  constructor() {
    super('the text takes more work to search for secrets than it may');
    this.name = 'WorkExceededError';
  }
}

/** The work on one text, or on all of one exchange. */
export class Work {
  /** Bytes looked at; those that the byte engine passes over at its own speed are not among them. */
  done = 0;
  #most: number;

  /** @param most without a number, as much as it takes */
  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  /** More work may be done. */
  allow(bytes: number): void {
    this.#most += bytes;
  }

  /** @throws {WorkExceededError} when it has come to more than it may */
  add(bytes: number): void {
    this.done += bytes;
    if (this.done > this.#most) throw new WorkExceededError();
  }
}
