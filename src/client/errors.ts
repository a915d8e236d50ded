/**
 * Errors of the client library's calls: one class per case that a caller may want to distinguish, all derived from
 * `UnderstudyError`. Any thread.
 */

/** Any failure between this client and the service. */
export class UnderstudyError extends Error {
  override name = 'UnderstudyError';

  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return false;
  }
}

/** The connection could not be opened, or it closed before the answer was complete. */
export class ConnectionError extends UnderstudyError {
  override name = 'ConnectionError';
  /** Whether no part of the request reached the service, so that sending it again is safe. */
  readonly unsent: boolean;

  constructor(message: string, unsent: boolean, options?: ErrorOptions) {
    super(message, options);
    this.unsent = unsent;
  }

  override get retryable(): boolean {
    return true;
  }
}

/** The service did not answer within the call's time limit, which includes retries, or an event stream fell silent. */
export class TimeoutError extends UnderstudyError {
  override name = 'TimeoutError';

  override get retryable(): boolean {
    return true;
  }
}

/**
 * The request was not sent, because the service has recently failed or not answered, and the client waits before the
 * next request.
 */
export class CircuitOpenError extends UnderstudyError {
  override name = 'CircuitOpenError';

  override get retryable(): boolean {
    return true;
  }
}

/**
 * The answer does not have the format of this API, or is too long. Another service probably listens at the address.
 */
export class UnexpectedAnswerError extends UnderstudyError {
  override name = 'UnexpectedAnswerError';
}

/** The problem with one field of a request. */
export interface FieldViolation {
  type: string;
  loc: readonly (string | number)[];
  msg: string;
}

/** The facts of an error answer besides its status. */
interface ApiErrorFacts {
  /** `detail` of the body: a text, or a list of {@link FieldViolation}; undefined if the body has none. */
  detail: unknown;
  /** `Retry-After` in seconds; null if absent. */
  retryAfter: number | null;
  /** null if the answer has no id. */
  requestId: string | null;
}

/** An unsuccessful answer. */
export class ApiError extends UnderstudyError {
  override name = 'ApiError';
  readonly status: number;
  /** The problems by field; empty unless the status is 422. */
  readonly violations: readonly FieldViolation[];
  /** Seconds to wait before the next attempt; null if the service states no time. */
  readonly retryAfter: number | null;
  /** The request's id in the service's log. */
  readonly requestId: string | null;

  constructor(status: number, { detail, retryAfter, requestId }: ApiErrorFacts) {
    const violations = Array.isArray(detail) ? (detail as FieldViolation[]) : [];
    const words = violations.map(({ loc, msg }) => `${loc?.join('.')}: ${msg}`).join('; ');
    super(typeof detail === 'string' ? detail : words || `HTTP ${status}`);
    this.status = status;
    this.violations = violations;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
  }

  override get retryable(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

/** 401: the key is missing, unknown or revoked. */
export class AuthenticationError extends ApiError {
  override name = 'AuthenticationError';
}

/** 403: the key is valid but lacks the permission. */
export class PermissionError extends ApiError {
  override name = 'PermissionError';
}

/** 404: the requested object does not exist, or belongs to another tenant. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}

/** 409: the request conflicts with the current state of an object. */
export class ConflictError extends ApiError {
  override name = 'ConflictError';
}

/** 422: a field is invalid. */
export class ValidationError extends ApiError {
  override name = 'ValidationError';
}

/** 429: too many requests. */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError';
}

/** 5xx: the service failed. */
export class ServerError extends ApiError {
  override name = 'ServerError';
}

const BY_STATUS: Readonly<Record<number, typeof ApiError>> = {
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  422: ValidationError,
  429: RateLimitError,
};

/** Makes an error of the class for the status. */
export function toApiError(status: number, facts: ApiErrorFacts): ApiError {
  const Class = BY_STATUS[status] ?? (status >= 500 ? ServerError : ApiError);
  return new Class(status, facts);
}
