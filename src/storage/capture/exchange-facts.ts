/**
 * The facts of an exchange: what the index needs of it, from its record and from what a decoder finds in its bodies.
 * Facts are usually read while the exchange is stored and its bodies are in memory. If there is no time then, they are
 * read later from the stored copy. Runs in the capture process, and on the command line in commands that rewrite a
 * capture file.
 */
import { type ClientRun, nameSideRun, readClientRun } from '../../domain/client-run.ts';
import type { ExchangeRecord } from '../../domain/exchange.ts';
import type { ExchangeTexts } from '../../domain/placed-text.ts';
import { type ExchangeSummary, type StoredMeta, summarize } from './record.ts';
import {
  type DecodedBodies,
  type DecodedEntry,
  type DecodeExchange,
  decodeSafely,
  makeStoredCopy,
} from './stored-copy.ts';

/** What links a turn to others. */
export type LinkEntry = Pick<
  DecodedEntry,
  | 'conversation'
  | 'answered'
  | 'answered_id'
  | 'answer_alone'
  | 'last_answer_alone'
  | 'last_answer_at'
  | 'broke_off'
  | 'sketchSystem'
>;

export interface ExchangeFacts {
  /**
   * The summary. Its run is that of the request's label; null without a label. Its kind and its wire format may follow
   * from the bodies.
   */
  summary: ExchangeSummary;
  /** null: the exchange has nothing to decode. */
  entry: LinkEntry | null;
  /** The run that headers of the client name; null without such headers, or if the request is labelled with its run. */
  client_run: string | null;
  /** Lists the texts for the full-text search; undefined if only the stored bodies have them. */
  listTexts: (() => ExchangeTexts) | undefined;
}

const NO_TEXTS: ExchangeTexts = Object.freeze({ setup: [], messages: [], answer: [] });

export class FactsReader {
  readonly #decode: DecodeExchange;
  readonly #runHeaders: readonly string[];

  /**
   * @param runHeaders the operator's headers that name runs, in lower case
   */
  constructor(decode: DecodeExchange, runHeaders: readonly string[]) {
    this.#decode = decode;
    this.#runHeaders = runHeaders;
  }

  /**
   * Reads the facts of an exchange.
   * @param readBodies called only if the bodies are needed; returns undefined if they are not available
   */
  read(meta: StoredMeta, readBodies: () => DecodedBodies | undefined): ExchangeFacts {
    const { record } = meta;
    // Any POST can be a turn, even on an unknown path; other methods cannot.
    const bodies = record.shape === null && record.method !== 'POST' ? undefined : readBodies();
    if (bodies === undefined) {
      const listTexts = () => this.#listTexts(meta, readBodies);
      return this.#makeFacts(record, null, listTexts);
    }
    const entry = decodeSafely(this.#decode, makeStoredCopy(meta, bodies));
    const { listTexts } = entry;
    let told: ExchangeRecord = record;
    if (record.shape === null) {
      const shape = entry.told_shape ?? null;
      if (shape === null) return this.#makeFacts(record, null, listTexts);
      told = { ...record, kind: 'turn', shape };
    } else if (entry.is_turn === false) told = { ...record, kind: 'other' };
    return this.#makeFacts(told, entry, listTexts);
  }

  #makeFacts(
    record: ExchangeRecord,
    entry: DecodedEntry | null,
    listTexts: ExchangeFacts['listTexts'],
  ): ExchangeFacts {
    const client = this.#findClientRun(record, entry);
    const summary = summarize(record, record.run_id, entry, client);
    return { summary, entry, client_run: client?.run_id ?? null, listTexts };
  }

  #listTexts(meta: StoredMeta, readBodies: () => DecodedBodies | undefined): ExchangeTexts {
    const bodies = readBodies();
    const copy = bodies === undefined ? null : makeStoredCopy(meta, bodies);
    const entry = copy === null ? null : decodeSafely(this.#decode, copy);
    return entry?.listTexts?.() ?? NO_TEXTS;
  }

  #findClientRun(record: ExchangeRecord, entry: DecodedEntry | null): ClientRun | null {
    if (record.kind !== 'turn' || record.run_id !== null) return null;
    const run = readClientRun(record.request.headers, this.#runHeaders);
    if (run === null) return null;
    const side = entry?.findSideCall?.(run.always_offers_tools) ?? null;
    return side === null || (run.kind !== null && run.kind !== 'subagent') ? run : nameSideRun(run, side);
  }
}
