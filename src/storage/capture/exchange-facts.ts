/**
 * The facts of an exchange: what the index needs of it, that is its record, and what a decoder finds in its bodies.
 * Facts are usually read while the exchange is stored and its bodies are in memory. If there is no time then, they are
 * read later from the stored copy. Runs in the capture process, and on the command line in commands that rewrite a
 * capture file.
 */
import { type ClientRun, nameSideRun, readClientRun } from '../../domain/client-run.ts';
import type { ExchangeRecord } from '../../domain/exchange.ts';
import type { ExchangeTexts } from '../../domain/placed-text.ts';
import type { StoredMeta } from './record.ts';
import {
  type DecodedBodies,
  type DecodedEntry,
  type DecodeExchange,
  decodeSafely,
  makeStoredCopy,
} from './stored-copy.ts';

export interface ExchangeFacts {
  /** Includes the kind and the wire format, which may follow from the bodies. */
  record: ExchangeRecord;
  /** null: the exchange has nothing to decode. */
  entry: DecodedEntry | null;
  /** The run that headers of the client name; null without such headers, or if the request is labelled with its run. */
  client: ClientRun | null;
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

  /** @param readBodies called only if the bodies are needed; returns undefined if they are not available */
  read(meta: StoredMeta, readBodies: () => DecodedBodies | undefined): ExchangeFacts {
    const { record } = meta;
    // Any POST can be a turn, even on an unknown path; other methods cannot.
    const bodies = record.shape === null && record.method !== 'POST' ? undefined : readBodies();
    if (bodies === undefined) {
      const listTexts = () => this.#listTexts(meta, readBodies);
      return { record, entry: null, client: this.#findClientRun(record, null), listTexts };
    }
    const entry = decodeSafely(this.#decode, makeStoredCopy(meta, bodies));
    const { listTexts } = entry;
    let told: ExchangeRecord = record;
    if (record.shape === null) {
      const shape = entry.told_shape ?? null;
      if (shape === null)
        return { record, entry: null, client: this.#findClientRun(record, null), listTexts };
      told = { ...record, kind: 'turn', shape };
    } else if (entry.is_turn === false) told = { ...record, kind: 'other' };
    return { record: told, entry, client: this.#findClientRun(told, entry), listTexts };
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

/**
 * Maximum memory for facts that wait until earlier exchanges are indexed. Beyond it, facts are dropped, and later read
 * from the stored copy.
 */
const WAITING_BYTES = 32 << 20;
/** Estimated memory of a record with its headers, and of one hash of a conversation. */
const RECORD_BYTES = 4_096;
const HASH_BYTES = 64;

/** Facts of exchanges, by id, that wait until earlier exchanges are indexed. */
export class WaitingFacts {
  readonly #facts = new Map<number, ExchangeFacts>();
  #bytes = 0;

  get isFull(): boolean {
    return this.#bytes >= WAITING_BYTES;
  }

  add({ record, entry, client }: ExchangeFacts): void {
    if (this.isFull) return;
    const { findSideCall: _asked, listTexts: _told, ...kept } = entry ?? { conversation: [] };
    // The functions of an entry would keep the whole conversation in memory, so their results are stored instead.
    const sketch = entry?.sketchSystem?.() ?? '';
    const light = entry === null ? null : ({ ...kept, sketchSystem: () => sketch } as DecodedEntry);
    this.#facts.set(record.id, { record, entry: light, client, listTexts: undefined });
    this.#bytes += weigh(entry);
  }

  /** Removes and returns the facts of one exchange; undefined if they were not waiting. */
  take(id: number): ExchangeFacts | undefined {
    const facts = this.#facts.get(id);
    if (facts === undefined) return undefined;
    this.#facts.delete(id);
    this.#bytes -= weigh(facts.entry);
    return facts;
  }
}

function weigh(entry: DecodedEntry | null): number {
  return RECORD_BYTES + HASH_BYTES * (entry?.conversation.length ?? 0);
}
