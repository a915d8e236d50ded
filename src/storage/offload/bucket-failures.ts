/** Errors of work with a bucket that the caller handles. Any thread. */

/** The draft for the bucket no longer matches the file. */
export class StaleDraftError extends Error {
  override readonly name = 'StaleDraftError';
}

/** The work was stopped; it can be restarted. */
export class StoppedError extends Error {
  override readonly name = 'StoppedError';
}
