/**
 * A capture database, as far as it is read to be analysed: live and sealed files as one (src/cli/capture-files.ts), as it
 * grows (src/storage/capture/followed-files.ts), or what a test made up. Any thread.
 */

import type { ExchangeRecord } from '../domain/exchange.ts';
import type { StoredExchange } from '../providers/decode.ts';

/** Which body of an exchange. */
export type BodySide = 'request' | 'response';

/** A record without its headers: what a listing needs. */
export type ListedExchange = Omit<ExchangeRecord, 'request' | 'response' | 'relegation'> & {
  /** On the wire; left out where nobody kept it. */
  request_bytes?: number;
  response_bytes?: number;
};

/** What is read of a capture database. `CaptureReader` is one. */
export interface ExchangeSource {
  /** Records without headers by id, ascending; of one run, or from an id on, when asked so. */
  summaries(filter?: { run_id?: string; from_id?: number }): Iterable<ListedExchange>;
  /** Whole records, likewise. */
  exchanges(filter?: { run_id?: string }): Iterable<ExchangeRecord>;
  /** The record, or undefined when there is none. */
  exchange(id: number): ExchangeRecord | undefined;
  /** The stored body's exact bytes, or undefined when the exchange is not there. */
  body(id: number, side: BodySide): Uint8Array | undefined;
  /** The stored copy as the decoders take it, or undefined when the exchange is not there. */
  copy(id: number): StoredExchange | undefined;
  /** Lets go of memory that reading has taken. Called while no listing is gone through. */
  release?(): Promise<void>;
}
