/**
 * What the client library's calls reject with: one class for each thing that a caller may want to tell apart, all of them an
 * `UnderstudyError`. Any thread.
 */

/** Anything that went wrong between this client and the service. */
export class UnderstudyError extends Error {
  override name = 'UnderstudyError';

  /** The same call, made later, may succeed. */
  get retryable(): boolean {
    return false;
  }
}

/** No connection, or one that broke before the answer was whole. */
export class ConnectionError extends UnderstudyError {
  override name = 'ConnectionError';
  /** Nothing of the request can have arrived: sending it again repeats nothing. */
  readonly unsent: boolean;

  constructor(message: string, unsent: boolean, options?: ErrorOptions) {
    super(message, options);
    this.unsent = unsent;
  }

  override get retryable(): boolean {
    return true;
  }
}

/** No answer within the time that the call had, retries included. */
export class TimeoutError extends UnderstudyError {
  override name = 'TimeoutError';

  override get retryable(): boolean {
    return true;
  }
}

/** Nothing was sent: the service did not answer lately, and the client waits before it asks again. */
export class CircuitOpenError extends UnderstudyError {
  override name = 'CircuitOpenError';

  override get retryable(): boolean {
    return true;
  }
}

/** A success that is no answer of this API: something else listens there. */
export class UnexpectedAnswerError extends UnderstudyError {
  override name = 'UnexpectedAnswerError';
}

/** What is wrong with one field of a request. */
export interface FieldViolation {
  type: string;
  loc: readonly (string | number)[];
  msg: string;
}

/** What an answer that is no success says of itself. */
interface ApiErrorFacts {
  detail: unknown;
  /** Seconds. */
  retryAfter: number | null;
  requestId: string | null;
}

/** An answer that is no success. */
export class ApiError extends UnderstudyError {
  override name = 'ApiError';
  readonly status: number;
  /** What is wrong, field by field; empty unless the status is 422. */
  readonly violations: readonly FieldViolation[];
  /** Seconds after which to try again, where the service says so. */
  readonly retryAfter: number | null;
  /** Names the request in the service's log. */
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

/** 403: the key is good, and may not do this. */
export class PermissionError extends ApiError {
  override name = 'PermissionError';
}

/** 404: it does not exist, or belongs to another tenant. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}

/** 409: it conflicts with what is there. */
export class ConflictError extends ApiError {
  override name = 'ConflictError';
}

/** 422: a field is not what it must be. */
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

/** @returns the error of the class that stands for the status */
export function toApiError(status: number, facts: ApiErrorFacts): ApiError {
  const Class = BY_STATUS[status] ?? (status >= 500 ? ServerError : ApiError);
  return new Class(status, facts);
}
