/**
 * The stored copy of an exchange: the fields of CapturedExchange and ExchangeRecord that reading needs. Types only;
 * used wherever stored copies are read.
 */

import type { ApiShape } from '../domain/exchange.ts';

export interface StoredExchange {
  shape: ApiShape | null;
  path: string;
  /** 0 without an answer. */
  status: number;
  /** Flat [name, value, …]. */
  request_headers: readonly string[];
  response_headers: readonly string[];
  request_body: Uint8Array;
  response_body: Uint8Array;
  /** Whether a stored body is only the beginning of the real one. */
  truncated: boolean;
  /** Absent: nothing is known about the request body's bytes. */
  request_place?: BodyPlace | undefined;
}

/** How a request body relates to others that the storage has read. */
export interface BodyPlace {
  /** Identifies this body. */
  self: object;
  /** Identifies an earlier body that begins with the same bytes; null: none. */
  repeats: object | null;
  /** Number of bytes in common; 0 without an earlier body. */
  repeated_bytes: number;
}
