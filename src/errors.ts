/**
 * The error catalogue: every failure that a caller can see has a code in `ERRORS`. The code determines the status, the
 * text and whether a retry may succeed. An error would lose its class between threads, so threads send its code and
 * text as plain data, and make it again from them. Any thread.
 */

interface CatalogueEntry {
  status: number;
  /** The text for the caller, unless the code that throws gives a more specific one. */
  detail: string;
  /** Whether the same request may succeed later. */
  retryable: boolean;
}

/** Codes are stable: clients and tests may name them. */
export const ERRORS = {
  malformed_request: { status: 400, detail: 'The request is malformed', retryable: false },
  bad_framing: { status: 400, detail: 'The message framing is not acceptable', retryable: false },
  bad_region: { status: 400, detail: 'The path does not name a region', retryable: false },
  unauthenticated: { status: 401, detail: 'Invalid or missing credentials', retryable: false },
  forbidden: { status: 403, detail: 'Forbidden', retryable: false },
  cross_site: {
    status: 403,
    detail: 'Admin routes do not answer requests from other sites',
    retryable: false,
  },
  not_found: { status: 404, detail: 'Not Found', retryable: false },
  method_not_allowed: { status: 405, detail: 'Method Not Allowed', retryable: false },
  conflict: { status: 409, detail: 'The request conflicts with the present state', retryable: false },
  capture_stopped: {
    status: 409,
    detail: 'Capture was stopped and stays off until the process is restarted',
    retryable: false,
  },
  upload_too_slow: { status: 408, detail: 'The request body came too slowly', retryable: false },
  body_too_large: { status: 413, detail: 'The request body is too large', retryable: false },
  encoded_body: {
    status: 415,
    detail: 'Bodies with a Content-Encoding are not accepted; send it as it is',
    retryable: false,
  },
  foreign_host: {
    status: 421,
    detail: 'This service does not answer under that host name',
    retryable: false,
  },
  upgrade_required: {
    status: 426,
    detail: 'This WebSocket connection cannot be tunnelled',
    retryable: false,
  },
  rate_limited: { status: 429, detail: 'Too many requests', retryable: true },
  head_too_large: { status: 431, detail: 'The request head is too large', retryable: false },
  internal: { status: 500, detail: 'Internal Server Error', retryable: false },
  upstream_failed: { status: 502, detail: 'The upstream could not be reached', retryable: true },
  capture_failed: { status: 503, detail: 'The capture database takes no writes now', retryable: true },
  unavailable: { status: 503, detail: 'Temporarily unavailable', retryable: true },
  deadline_exceeded: { status: 503, detail: 'No answer in time', retryable: true },
  http_version: { status: 505, detail: 'This port accepts only HTTP/1.1', retryable: false },
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof ERRORS;

/** An error as one thread sends it to another: plain data, without the stack. */
export interface ErrorData {
  code: ErrorCode;
  detail: string;
}

/** A failure from the catalogue. Its `cause` is only logged; it never reaches a caller. */
export class CatalogueError extends Error {
  readonly code: ErrorCode;

  /**
   * @param code an entry of {@link ERRORS}
   * @param detail text for the caller instead of the catalogue's; never contains a secret
   */
  constructor(code: ErrorCode, detail?: string, options?: ErrorOptions) {
    super(detail ?? ERRORS[code].detail, options);
    this.name = 'CatalogueError';
    this.code = code;
  }

  /** HTTP status. */
  get status(): number {
    return ERRORS[this.code].status;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }
}

/** The system's codes for a write for which there is no space. */
const NO_SPACE: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/**
 * Converts a thrown value to an error of the catalogue. The thrown value becomes the cause.
 * @param thrown any caught value
 * @returns a catalogue error unchanged; `unavailable` for a full disk, for a shared database that cannot be used now,
 *   and for an error that says that a retry may succeed (`retryable`); otherwise `internal`
 */
export function toCatalogueError(thrown: unknown): CatalogueError {
  if (thrown instanceof CatalogueError) return thrown;
  if (thrown instanceof Error && NO_SPACE.has((thrown as { code?: unknown }).code))
    return new CatalogueError('unavailable', 'The disk of the service is full', { cause: thrown });
  if (thrown instanceof Error && (thrown as { code?: unknown }).code === 'EDATABASE')
    return new CatalogueError('unavailable', 'The shared database cannot be used now', { cause: thrown });
  const isPassing = thrown instanceof Error && (thrown as { retryable?: unknown }).retryable === true;
  return new CatalogueError(isPassing ? 'unavailable' : 'internal', undefined, { cause: thrown });
}

/** Converts a thrown value for another thread: to plain data that structured clone and msgpack can transport. */
export function toErrorData(thrown: unknown): ErrorData {
  const error = toCatalogueError(thrown);
  return { code: error.code, detail: error.message };
}

/** Makes the error that another thread has sent. A code that this version does not know becomes `internal`. */
export function fromErrorData(data: { code: string; detail: string }): CatalogueError {
  return new CatalogueError(isErrorCode(data.code) ? data.code : 'internal', data.detail);
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}

/** Makes the error for a status with which a listener itself answers; `unavailable` for any other status. */
export function errorOfStatus(status: number, message: string): CatalogueError {
  return new CatalogueError(LISTENER_ERRORS[status] ?? 'unavailable', message);
}

const LISTENER_ERRORS: Readonly<Record<number, ErrorCode>> = {
  400: 'bad_framing',
  408: 'upload_too_slow',
  431: 'head_too_large',
  505: 'http_version',
};

/** Makes the body of the API's error answer (documents 1 and 2). */
export function toApiBody(error: CatalogueError): { detail: string } {
  return { detail: error.message };
}

/**
 * Makes the body of the gateway's own error answer: that of the Messages API, for every client (document 3, Errors).
 */
export function toMessagesBody(error: CatalogueError): {
  type: 'error';
  error: { type: string; message: string };
} {
  return { type: 'error', error: { type: messagesErrorType(error.status), message: error.message } };
}

/** The messages API's name for a status (Anthropic, API errors). */
function messagesErrorType(status: number): string {
  switch (status) {
    case 401:
      return 'authentication_error';
    case 403:
      return 'permission_error';
    case 404:
      return 'not_found_error';
    case 413:
      return 'request_too_large';
    case 429:
      return 'rate_limit_error';
    default:
      return status < 500 ? 'invalid_request_error' : 'api_error';
  }
}
