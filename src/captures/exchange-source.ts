/**
 * Read access to a capture database, as analyses need it. Implementations are live and sealed files as one source
 * (capture-files.ts), a growing database (src/storage/capture/followed-files.ts), and test data. Any thread.
 */

import type { ExchangeRecord } from '../domain/exchange.ts';
import { inRunOrder } from '../domain/run-order.ts';
import type { StoredExchange } from '../providers/decode.ts';

/** A body of an exchange: request or response. */
export type BodySide = 'request' | 'response';

/** A record without its headers: enough for a listing. */
export type ListedExchange = Omit<ExchangeRecord, 'request' | 'response' | 'relegation'> & {
  /** Size on the wire; absent if not recorded. */
  request_bytes?: number;
  response_bytes?: number;
};

/** Read access to a capture database. */
export interface ExchangeSource {
  /** Records without headers, ascending by id, except erased ones; optionally only of one run, or from an id on. */
  summaries(filter?: { run_id?: string; from_id?: number }): Iterable<ListedExchange>;
  /** The first and the last id, if known without a listing; no exchange lies outside of them. */
  range?(): { first_id: number; last_id: number };
  /** Number of stored exchanges that are not indexed; absent: all are. */
  readonly unlisted?: number;
  /** The record; undefined if absent. */
  exchange(id: number): ExchangeRecord | undefined;
  /** The stored body's exact bytes; undefined when the exchange does not exist. */
  body(id: number, side: BodySide): Uint8Array | undefined;
  /** The stored copy in the decoders' form; undefined when the exchange does not exist. */
  copy(id: number): StoredExchange | undefined;
  /** The latest end of an exchange with a smaller id. Absent or minus infinity: exchanges ended in the order of ids. */
  endedBefore?(id: number): number;
  /** Releases memory that reading has used. Must not be called during a listing. */
  release?(): Promise<void>;
}

/** A run's records in the order of the run; unreadable ones are left out. */
export function* readInOrder(source: ExchangeSource, runId: string): Generator<ExchangeRecord> {
  for (const { id } of inRunOrder(source.summaries({ run_id: runId }))) {
    const record = source.exchange(id);
    if (record !== undefined) yield record;
  }
}
