/**
 * Reads a capture database: a live file that another process or thread writes, or a sealed one. Used by the command
 * line, the capture reader and tests; synchronous, read-only. Memory is bounded for files of any size.
 * A reader never indexes. For an exchange that the writer has not indexed yet, it returns only fields of the record:
 * id, time, route, status, sizes, and the run if the request named it. Such an exchange is marked `not_indexed`.
 * Each call uses its own short LMDB transaction. A transaction that stays open would keep the writer from reusing old
 * pages, and the file would grow.
 */
import type { ExchangeRecord } from '../../domain/exchange.ts';
import { BlockReader } from './blocks.ts';
import { readChanges, readErasures } from './file-erasure.ts';
import { type CaptureEnv, nameDamage, openCaptureEnv } from './layout.ts';
import { type NewestExchange, readNewest } from './newest-exchanges.ts';
import type { ReadCache } from './read-cache.ts';
import { completeRecord, type ExchangeSummary, summarize } from './record.ts';
import { makeStoredCopy, type StoredCopy } from './stored-copy.ts';
import { blockEnd, type RunMoves, SummaryTable } from './summary-table.ts';

/** Half of the maximum memory for decompressed blocks and bodies. */
const CAPTURE_READER_CACHE_BYTES = 32 << 20;

export interface ReaderOptions {
  /** Half of the maximum memory for decompressed blocks and bodies; default CAPTURE_READER_CACHE_BYTES. */
  cache_bytes?: number;
  /** A cache that is shared with other readers, which replaces the reader's cache. */
  cache?: ReadCache;
  /** The file's data key; null or omitted: not encrypted. Secret. */
  data_key?: Uint8Array | null;
  /**
   * Called for each unreadable exchange while several exchanges are read; if omitted, the first unreadable one makes
   * the iteration throw.
   */
  skipped?: (id: number) => void;
}

interface ExchangeFilter {
  /** First id; default: 1. */
  from_id?: number;
  /** Only exchanges of this run. */
  run_id?: string;
}

/** The ids in a file; `last_id` is `first_id` minus one if the file is empty. */
interface FileRange {
  first_id: number;
  last_id: number;
  /** The last exchange that is indexed. */
  indexed_id: number;
}

export class CaptureReader {
  readonly path: string;
  readonly #env: CaptureEnv;
  readonly #blocks: BlockReader;
  readonly #table: SummaryTable;
  readonly #skipped: ReaderOptions['skipped'];
  /** The file's count of changes at the last read. */
  #changes: number;

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

  private constructor(path: string, env: CaptureEnv, options: ReaderOptions) {
    this.path = path;
    this.#env = env;
    this.#skipped = options.skipped;
    this.#blocks = new BlockReader(
      env,
      path,
      options.cache ?? options.cache_bytes ?? CAPTURE_READER_CACHE_BYTES,
    );
    this.#table = new SummaryTable(env, this.#blocks.readFirstId());
    this.#changes = readChanges(env);
  }

  /** Reads the latest committed state. @throws {import('./layout.ts').CaptureFileError} damaged */
  #read<Value>(read: () => Value): Value {
    return nameDamage(this.path, () => {
      this.#env.root.resetReadTxn();
      try {
        this.#table.refresh();
        this.#forgetChanged();
        return read();
      } finally {
        this.#env.root.resetReadTxn();
      }
    });
  }

  /** Empties the caches if stored exchanges were changed since the last read. */
  #forgetChanged(): void {
    const changes = readChanges(this.#env);
    if (changes === this.#changes) return;
    this.#changes = changes;
    this.#blocks.clear();
    this.#table.forget();
  }

  /** Number of completed erasures since this live file was created. */
  get erasures(): number {
    return this.#read(() => readErasures(this.#env));
  }

  /**
   * Returns the ids in this file.
   * @throws {import('./layout.ts').CaptureFileError} damaged
   */
  range(): FileRange {
    return this.#read(() => ({
      first_id: this.#blocks.readFirstId(),
      last_id: this.#blocks.readLastId(),
      indexed_id: this.#table.indexed,
    }));
  }

  /**
   * Yields summaries (records without headers), in id order; fast for thousands of indexed exchanges.
   * @throws {import('./layout.ts').CaptureFileError} damaged
   */
  *summaries({ run_id, from_id = 1 }: ExchangeFilter = {}): Generator<ExchangeSummary> {
    const { first_id, last_id } = this.range();
    let next = Math.max(first_id, from_id);
    while (next <= last_id) {
      const from = next;
      // One block of the index at a time.
      const to = Math.min(last_id, blockEnd(from));
      const { found, end } = this.#read(() => this.#readSummaries(from, to, run_id));
      for (const summary of found) if (run_id === undefined || summary.run_id === run_id) yield summary;
      next = end;
    }
  }

  /** Reads the summaries of the ids from `from` to `to`. @returns the summaries, and the id from which to read next */
  #readSummaries(
    from: number,
    to: number,
    runId: string | undefined,
  ): { found: ExchangeSummary[]; end: number } {
    const first = runId === undefined ? from : this.#findRun(from, runId);
    if (first > to) return { found: [], end: first };
    const found: ExchangeSummary[] = [];
    const name = runId === undefined ? null : Buffer.from(JSON.stringify(runId));
    for (let id = first; id <= to; id++) {
      try {
        // Reading the record of each unindexed exchange would take ten times as long.
        if (name !== null && id > this.#table.indexed && !this.#blocks.readRecord(id)?.includes(name))
          continue;
        const summary = this.#readSummary(id);
        if (summary !== undefined) found.push(summary);
      } catch (error) {
        if (this.#skipped === undefined) throw error;
        this.#skipped(id);
      }
    }
    return { found, end: to + 1 };
  }

  /**
   * Finds the first id from `from` on that may belong to the run. If the index is damaged, that is `from`.
   * @throws the error about the damage if `skipped` was omitted
   */
  #findRun(from: number, runId: string): number {
    try {
      return this.#table.findRun(from, runId);
    } catch (error) {
      if (this.#skipped === undefined) throw error;
      return from;
    }
  }

  #readSummary(id: number): ExchangeSummary | undefined {
    const summary = this.#table.read(id);
    if (summary) return summary;
    const meta = this.#blocks.readMeta(id);
    if (meta === undefined) return undefined;
    const told = summarize(meta.record, meta.record.run_id, null);
    if (summary === undefined) return { ...told, not_indexed: true };
    // The writer could not read the exchange. Reading it here throws the reason.
    this.#blocks.readBodies(id, meta);
    return told;
  }

  /** Reads the writer's list of the newest exchanges, ascending by id; empty if the index has all exchanges. Cheap. */
  newest(): NewestExchange[] {
    return this.#read(() => readNewest(this.#env));
  }

  /** Returns the moves of turns to another run that were caused by turns after the exchange `after`. */
  moves(after: number): RunMoves {
    return this.#read(() => this.#table.readMoves(after));
  }

  /** Yields records, in id order. @throws {import('./layout.ts').CaptureFileError} damaged */
  *exchanges(filter: ExchangeFilter = {}): Generator<ExchangeRecord> {
    for (const summary of this.summaries(filter)) {
      const record = this.exchange(summary.id);
      if (record !== undefined) yield record;
    }
  }

  /**
   * One record; undefined if it is not in this file.
   * @throws {import('./layout.ts').CaptureFileError} damaged
   */
  exchange(id: number): ExchangeRecord | undefined {
    return this.#read(() => {
      const record = this.#blocks.readMeta(id)?.record;
      if (record === undefined) return undefined;
      const summary = this.#table.read(id);
      if (summary === undefined) return { ...record, not_indexed: true };
      return summary === null ? record : completeRecord(record, summary);
    });
  }

  /**
   * Returns the exact bytes of the stored body; empty if the exchange had no body, undefined if the exchange is not in
   * this file.
   * @throws {import('./layout.ts').CaptureFileError} damaged, including when an attachment is missing
   */
  body(id: number, side: 'request' | 'response'): Uint8Array | undefined {
    return this.#read(() => {
      const meta = this.#blocks.readMeta(id);
      return meta === undefined ? undefined : this.#blocks.readBodies(id, meta)?.[side];
    });
  }

  /** Returns the stored copy in the form that a decoder takes; undefined if the exchange is not in this file. */
  copy(id: number): StoredCopy | undefined {
    return this.#read(() => {
      const meta = this.#blocks.readMeta(id);
      const bodies = meta === undefined ? undefined : this.#blocks.readBodies(id, meta);
      if (meta === undefined || bodies === undefined) return undefined;
      const copy = makeStoredCopy(meta, { request: bodies.request, response: bodies.response });
      // If the wire format does not follow from the path, the index may have found it in the bodies.
      copy.shape ??= this.#table.read(id)?.shape ?? null;
      return copy;
    });
  }

  /** Closes the file. The reader cannot be used afterwards. */
  async close(): Promise<void> {
    this.#blocks.clear();
    await this.#env.root.close();
  }
}
