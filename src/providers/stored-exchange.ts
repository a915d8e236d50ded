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

/** A request body among others that the storage has at hand. */
export interface BodyPlace {
  /** Stands for this body. */
  self: object;
  /** Stands for an earlier body that begins with the same bytes; null: none. */
  repeats: object | null;
  /** Number of these bytes; 0 without an earlier body. */
  repeated_bytes: number;
}
