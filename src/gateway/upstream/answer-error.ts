/** What can be wrong with an upstream or its answer. Any thread; pure. */

/** An answer that did not come. Its code goes to the client, its words do not. */
export class UpstreamError extends Error {
  /**
   * A system's code where there is one; `BAD_ANSWER` for what is no HTTP/1.1, `BAD_REQUEST` for what we will not send,
   * `BAD_UPLOAD` for a body of another length than announced.
   */
  readonly code: string;
  /** The connection had served a request before and ended before a byte of this answer. */
  isStaleConnection = false;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UpstreamError';
    this.code = code;
  }
}

/** @returns the error for an answer that breaks HTTP/1.1 */
export function badAnswer(what: string): UpstreamError {
  return new UpstreamError('BAD_ANSWER', what);
}
