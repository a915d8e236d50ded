/**
 * Reads a capture database: a live file that another process or thread writes to, or a sealed one. Used by the command
 * line, the capture reader and tests; synchronous, read-only. Memory is bounded whatever the file's size.
 */

import type { ExchangeRecord } from '../../domain/exchange.ts';
import { CAPTURE_READER_CACHE_BYTES, READER_OWN_INDEX_MAX } from '../../limits.ts';
import { BlockReader } from './blocks.ts';
import {
  type DecodeExchange,
  ExchangeIndex,
  FACTS_PER_BLOCK,
  makeStoredCopy,
  type StoredCopy,
} from './exchange-index.ts';
import { type CaptureEnv, CaptureFileError, nameDamage, openCaptureEnv } from './layout.ts';
import { completeRecord, type ExchangeSummary, summarize } from './record.ts';

export interface ReaderOptions {
  /** Most bytes kept of what was unpacked, and again of bodies; CAPTURE_READER_CACHE_BYTES when left out. */
  cache_bytes?: number;
  /** Finds model, usage and run of exchanges that the writer has not indexed yet; without it they stay null. */
  decode?: DecodeExchange;
  /** Under which the file must be; null or left out: under none. */
  data_key?: Uint8Array | null;
  /** Told of each exchange that cannot be read when many are gone through; left out: the first one ends that. */
  skipped?: (id: number) => void;
}

export interface ExchangeFilter {
  /** First id; 1 when not given. */
  from_id?: number;
  /** Only exchanges of this run. */
  run_id?: string;
}

export class CaptureReader {
  readonly path: string;
  readonly #env: CaptureEnv;
  readonly #blocks: BlockReader;
  readonly #index: ExchangeIndex;
  readonly #decode: DecodeExchange | null;
  readonly #options: ReaderOptions;

  /**
   * @param path a capture file, live or sealed
   * @throws {import('./layout.ts').CaptureFileError} with a code: missing, not_a_capture, truncated, damaged,
   *   newer_format, unreadable; DataKeyError
   */
  static open(path: string, options: ReaderOptions = {}): CaptureReader {
    const env = openCaptureEnv(path, 'read', options.data_key ?? null);
    try {
      return nameDamage(path, () => new CaptureReader(path, env, options));
    } catch (error) {
      void env.root.close();
      throw error;
    }
  }

  /** @param index found by an earlier reader of the same file */
  private constructor(path: string, env: CaptureEnv, options: ReaderOptions, index?: ExchangeIndex) {
    this.path = path;
    this.#env = env;
    this.#options = options;
    this.#blocks = new BlockReader(env, path, options.cache_bytes ?? CAPTURE_READER_CACHE_BYTES);
    index?.moveTo(env, this.#blocks);
    this.#index = index ?? new ExchangeIndex(env, this.#blocks, false);
    this.#decode = options.decode ?? null;
  }

  /**
   * Opens the same file anew, with what this reader has found out about exchanges that the writer has not indexed: to find it
   * again would take minutes. Called when this one is closed.
   * @throws {import('./layout.ts').CaptureFileError} as `open`
   */
  openAgain(): CaptureReader {
    const env = openCaptureEnv(this.path, 'read', this.#options.data_key ?? null);
    try {
      return nameDamage(this.path, () => new CaptureReader(this.path, env, this.#options, this.#index));
    } catch (error) {
      void env.root.close();
      throw error;
    }
  }

  /** Looks at the newest state that is committed, and brings the reader's own index up to `id`. */
  #refresh(id: number): void {
    this.#env.root.resetReadTxn();
    this.#index.refresh();
    if (this.#decode === null) return;
    while (
      this.#index.indexed < id &&
      this.#index.pending < READER_OWN_INDEX_MAX &&
      this.#index.indexNext(this.#decode)
    );
  }

  /**
   * First and last id in this file; last is one less than first when it holds none.
   * @throws {import('./layout.ts').CaptureFileError} damaged
   */
  range(): { first_id: number; last_id: number } {
    return nameDamage(this.path, () => {
      this.#refresh(0);
      return { first_id: this.#blocks.readFirstId(), last_id: this.#blocks.readLastId() };
    });
  }

  /**
   * Records without headers, in the order of ids; quick for many thousands, since they are read from the index.
   * @throws {import('./layout.ts').CaptureFileError} damaged
   */
  *summaries(filter: ExchangeFilter = {}): Generator<ExchangeSummary> {
    const { first_id, last_id } = this.range();
    const { run_id } = filter;
    const find = (id: number): number =>
      run_id === undefined ? id : nameDamage(this.path, () => this.#index.findRun(id, run_id));
    // What a block of the index holds is read at once.
    let wasFound = false;
    for (let id = Math.max(first_id, filter.from_id ?? 1); id <= last_id; id++) {
      let summary: ExchangeSummary | undefined;
      try {
        if (!wasFound || id % FACTS_PER_BLOCK === 1) id = find(id);
        if (id > last_id) return;
        wasFound = true;
        summary = nameDamage(this.path, () => this.#readSummary(id));
      } catch (error) {
        if (this.#options.skipped === undefined || !(error instanceof CaptureFileError)) throw error;
        this.#options.skipped(id);
        continue;
      }
      if (summary === undefined) return;
      if (run_id === undefined || summary.run_id === run_id) yield summary;
    }
  }

  #readSummary(id: number): ExchangeSummary | undefined {
    // A block of the index at once: each look at the newest state leaves a timer of lmdb's until the loop turns.
    if (id > this.#index.indexed || id % 1_024 === 0) this.#refresh(id + FACTS_PER_BLOCK - 1);
    const summary = this.#index.readSummary(id);
    if (summary) return summary;
    const meta = this.#blocks.readMeta(id);
    if (meta === undefined) return undefined;
    // What the index could not read: this says why.
    if (summary === null) this.#blocks.readBodies(id, meta);
    return summarize(meta.record, meta.record.run_id, null);
  }

  /** Records in the order of ids. @throws {import('./layout.ts').CaptureFileError} damaged */
  *exchanges(filter: ExchangeFilter = {}): Generator<ExchangeRecord> {
    for (const summary of this.summaries(filter)) {
      const record = this.exchange(summary.id);
      if (record !== undefined) yield record;
    }
  }

  /**
   * One record; undefined when this file does not hold it. Of those before it nothing is read where it can do without:
   * all but the run of an unlabelled turn stands in an exchange itself.
   * @throws {import('./layout.ts').CaptureFileError} damaged
   */
  exchange(id: number): ExchangeRecord | undefined {
    return nameDamage(this.path, () => {
      this.#refresh(0);
      const meta = this.#blocks.readMeta(id);
      if (meta === undefined) return undefined;
      if (this.#decode !== null && id > this.#index.indexed) {
        const alone = this.#index.readAlone(meta, this.#decode);
        if (alone !== undefined) return completeRecord(meta.record, alone);
        this.#refresh(id);
      }
      return this.#index.complete(meta.record);
    });
  }

  /**
   * The stored body's exact bytes; empty when there was none, undefined when this file does not hold the exchange.
   * @throws {import('./layout.ts').CaptureFileError} damaged, also when an attachment is missing
   */
  body(id: number, side: 'request' | 'response'): Uint8Array | undefined {
    return nameDamage(this.path, () => {
      this.#env.root.resetReadTxn();
      const meta = this.#blocks.readMeta(id);
      return meta === undefined ? undefined : this.#blocks.readBodies(id, meta)?.[side];
    });
  }

  /** The stored copy in the form that a decoder takes; undefined when this file does not hold the exchange. */
  copy(id: number): StoredCopy | undefined {
    return nameDamage(this.path, () => {
      this.#env.root.resetReadTxn();
      const meta = this.#blocks.readMeta(id);
      const bodies = meta === undefined ? undefined : this.#blocks.readBodies(id, meta);
      if (meta === undefined || bodies === undefined) return undefined;
      const copy = makeStoredCopy(meta, bodies.request, bodies.response);
      // Where the path tells no wire format, the index may know it from the bodies.
      copy.shape ??= this.#index.readSummary(id)?.shape ?? null;
      return copy;
    });
  }

  /** Ends it; the reader is not to be used any more, but for `openAgain`. */
  async close(): Promise<void> {
    this.#blocks.clear();
    await this.#env.root.close();
  }
}
