/** Errors of an upstream or its answer. Any thread; pure. */

/** A failed answer. The client sees its code. It sees its message only if the code is `BAD_REQUEST`. */
export class UpstreamError extends Error {
  /**
   * The system's code, also used for failures that the gateway finds itself (`ETIMEDOUT`, `ECONNRESET`); '' without a
   * code. `BAD_ANSWER`: the answer is not HTTP/1.1, or was not requested. `BAD_REQUEST`: the gateway refuses to send
   * such a request. `BAD_UPLOAD`: the body has another length than announced. `CLOSED`: the gateway closed the
   * connection.
   */
  readonly code: string;
  /** The connection had served a request before and ended before the first byte of this answer. */
  isStaleConnection = false;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UpstreamError';
    this.code = code;
  }
}

/** Makes the error for an answer that violates HTTP/1.1, or was not requested. */
export function badAnswer(what: string): UpstreamError {
  return new UpstreamError('BAD_ANSWER', what);
}
