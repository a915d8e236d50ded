/** Failures of work with a bucket that its caller handles. Any thread. */

/** What was prepared for the bucket is no longer about the file as it is. */
export class StaleDraftError extends Error {
  override readonly name = 'StaleDraftError';
}

/** The work was stopped, and can be begun again. */
export class StoppedError extends Error {
  override readonly name = 'StoppedError';
}
