/**
 * Spans and log records of OTLP, reduced to what this service reads, and request errors. Times are
 * milliseconds since the epoch; ids are hexadecimal, '' when absent. Data and small rules; any thread.
 */

import type { RawNumber } from '../std/exact-json.ts';
import { OTLP_BOUNDS } from './limits.ts';

export type AttributeValue =
  | string
  | number
  | RawNumber
  | boolean
  | null
  | readonly AttributeValue[]
  | { readonly [name: string]: AttributeValue };

export type Attributes = ReadonlyMap<string, AttributeValue>;

/** The sender of a record. */
export interface Origin {
  resource: Attributes;
  /** Name of the instrumentation scope. */
  scope: string;
}

export interface OtlpSpan {
  origin: Origin;
  trace_id: string;
  span_id: string;
  parent_span_id: string;
  name: string;
  start_ms: number;
  end_ms: number;
  attributes: Attributes;
  events: readonly { name: string; attributes: Attributes }[];
  is_error: boolean;
  status_message: string;
}

export interface OtlpLog {
  origin: Origin;
  trace_id: string;
  span_id: string;
  at_ms: number;
  /** The record's event name, or the attribute `event.name`; '' when both are absent. */
  event_name: string;
  body: AttributeValue;
  attributes: Attributes;
}

/** A request that violates OTLP or exceeds a bound. The message quotes no content of the request. */
export class OtlpFault extends Error {
  /** Whether the request has too many records or values. */
  readonly is_too_much: boolean;

  constructor(message: string, is_too_much = false) {
    super(message);
    this.name = 'OtlpFault';
    this.is_too_much = is_too_much;
  }
}

/** Counts the records and values that were read from one request, and refuses too many. */
export class OtlpMeter {
  #records = 0;
  #values = 0;

  /** Counts a record. @throws OtlpFault beyond the bound */
  takeRecord(): void {
    if (++this.#records > OTLP_BOUNDS.records)
      throw new OtlpFault(`The request has more than ${OTLP_BOUNDS.records} records`, true);
  }

  /** Counts a value. @param depth its level of nesting @throws OtlpFault beyond a bound */
  takeValue(depth: number): void {
    if (++this.#values > OTLP_BOUNDS.values)
      throw new OtlpFault(`The request has more than ${OTLP_BOUNDS.values} values`, true);
    if (depth > OTLP_BOUNDS.depth)
      throw new OtlpFault(`A value is nested deeper than ${OTLP_BOUNDS.depth} levels`);
  }
}
