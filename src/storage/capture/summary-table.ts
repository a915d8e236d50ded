/**
 * The table `facts`: the summary of each indexed exchange, and the moves (turns that got another run). Readers read it
 * while the capture process writes. Any thread.
 * Rows. Summaries are stored in blocks: the ids from 64n + 1 (or the file's first id) to 64n + 64. A full block is one
 * row, with the block's first id as key: a compressed JSON array. If the last block is not full, its row has the first
 * summaries, as an array or a single value, and each further summary has its own row, as JSON. The row with key 0 has
 * the moves. The row with the highest key has the newest exchanges that are not indexed yet (newest-exchanges.ts).
 */
import { compressZstd, decompressZstd } from '../../std/zstd.ts';
import { type CaptureEnv, readMetaNumber } from './layout.ts';
import type { ExchangeSummary } from './record.ts';

/** Number of summaries that share one row. */
const FACTS_PER_BLOCK = 64;
/** Maximum number of decoded blocks in memory, about 100 KB each. */
const CACHED_BLOCKS = 16;
/** Key of the row of moves; no exchange has this id. */
const MOVES_KEY = 0;
const OPENING_BRACE = 0x7b;
/** Maximum length of a decompressed row. The length in the row's head may be wrong, because rows can be damaged. */
const MAX_ROW_BYTES = 256 << 20;

/** An indexed exchange; null: it could not be read. */
export type IndexedSummary = ExchangeSummary | null;

/** Some turns of run `from` got the run `to`, because a turn was stored late. */
export interface RunMove {
  /** The turn that was stored late. */
  at: number;
  from: string;
  to: string;
}

/** The latest moves of a file. */
export interface RunMoves {
  moves: RunMove[];
  /** Moves at or before this exchange may have been dropped. */
  forgotten_to: number;
}

/** A row to be written. */
export interface FactsRow {
  key: number;
  value: Buffer;
}

/** Returns the id of the first exchange in the block of summaries that contains an exchange. */
export function blockStart(id: number, firstId: number): number {
  return Math.max(firstId, id - ((id - 1) % FACTS_PER_BLOCK));
}

/** Returns the id of the last exchange in the block of summaries that contains an exchange, when the block is full. */
export function blockEnd(id: number): number {
  return id - ((id - 1) % FACTS_PER_BLOCK) + FACTS_PER_BLOCK - 1;
}

export class SummaryTable {
  readonly #env: CaptureEnv;
  readonly #firstId: number;
  #indexed: number;
  /** Blocks by their key, the most recently read last. Runs that overlap in time are read from the same few blocks. */
  readonly #blocks = new Map<number, IndexedSummary[]>();

  /** @param firstId first id of the file */
  constructor(env: CaptureEnv, firstId: number) {
    this.#env = env;
    this.#firstId = firstId;
    this.#indexed = this.#readIndexed();
  }

  /** Id of the last exchange whose summary is in the file. */
  get indexed(): number {
    return this.#indexed;
  }

  /** Reads again which exchange is the last indexed one. */
  refresh(): void {
    const indexed = this.#readIndexed();
    // Later writes may also have corrected earlier summaries.
    if (indexed !== this.#indexed) this.#blocks.clear();
    this.#indexed = indexed;
  }

  /** Drops the cached blocks, because rows were changed. */
  forget(): void {
    this.#blocks.clear();
  }

  #readIndexed(): number {
    return readMetaNumber(this.#env, 'indexed', this.#firstId - 1);
  }

  /** Reads the summary; null for an exchange that could not be read, undefined for one that is not indexed. */
  read(id: number): IndexedSummary | undefined {
    if (id < this.#firstId || id > this.#indexed) return undefined;
    const key = blockStart(id, this.#firstId);
    return this.readBlock(key)[id - key];
  }

  /** Reads the indexed summaries of one block, in order. The array is shared: copy it before changing it. */
  readBlock(key: number): readonly IndexedSummary[] {
    const known = this.#blocks.get(key);
    if (known !== undefined) {
      this.#blocks.delete(key);
      this.#blocks.set(key, known);
      return known;
    }
    const value = this.#env.facts.get(key);
    const summaries = value === undefined ? [] : decodeRow(value);
    const end = Math.min(blockEnd(key), this.#indexed);
    while (key + summaries.length <= end) {
      const row = this.#env.facts.get(key + summaries.length);
      if (row === undefined) break;
      summaries.push(...decodeRow(row));
    }
    if (this.#blocks.size >= CACHED_BLOCKS) this.#blocks.delete(this.#blocks.keys().next().value!);
    this.#blocks.set(key, summaries);
    return summaries;
  }

  /**
   * Finds the first indexed id from `id` on that may belong to the run; the id after the last indexed one if no such id
   * exists. Skips blocks whose text does not contain the run's name, because parsing their summaries would take ten
   * times as long.
   */
  findRun(id: number, runId: string): number {
    const name = Buffer.from(`"run_id":${JSON.stringify(runId)}`);
    let at = id;
    while (at >= this.#firstId && at <= this.#indexed) {
      const key = blockStart(at, this.#firstId);
      if (this.#mayName(key, name, runId)) return at;
      at = Math.min(blockEnd(key), this.#indexed) + 1;
    }
    return at;
  }

  #mayName(key: number, name: Buffer, runId: string): boolean {
    if (this.#blocks.has(key) || blockEnd(key) > this.#indexed)
      return this.readBlock(key).some((summary) => summary?.run_id === runId);
    const value = this.#env.facts.get(key);
    return value === undefined || unpackRow(value).includes(name);
  }

  /** Reads the moves of turns to another run that were caused by turns after the exchange `after`. */
  readMoves(after: number): RunMoves {
    const { moves, forgotten_to } = this.readAllMoves();
    return { moves: moves.filter(({ at }) => at > after), forgotten_to };
  }

  readAllMoves(): RunMoves {
    const value = this.#env.facts.get(MOVES_KEY);
    if (value === undefined) return { moves: [], forgotten_to: 0 };
    return JSON.parse(unpackRow(value).toString('utf8')) as RunMoves;
  }
}

/** Makes the row of a block: all of its summaries, or those so far. */
export function encodeBlockRow(key: number, summaries: readonly IndexedSummary[]): FactsRow {
  return { key, value: compressZstd(Buffer.from(JSON.stringify(summaries), 'utf8')) };
}

/** Makes the row of a single summary in the last block. */
export function encodeSummaryRow(key: number, summary: IndexedSummary): FactsRow {
  const value =
    summary === null ? encodeBlockRow(key, [null]).value : Buffer.from(JSON.stringify(summary), 'utf8');
  return { key, value };
}

export function encodeMovesRow(moves: RunMoves): FactsRow {
  return { key: MOVES_KEY, value: compressZstd(Buffer.from(JSON.stringify(moves), 'utf8')) };
}

function unpackRow(value: Buffer): Buffer {
  return value[0] === OPENING_BRACE ? value : decompressZstd(value, { maxOutputLength: MAX_ROW_BYTES });
}

function decodeRow(value: Buffer): IndexedSummary[] {
  const row = JSON.parse(unpackRow(value).toString('utf8')) as ExchangeSummary | IndexedSummary[];
  const summaries = Array.isArray(row) ? row : [row];
  // Summaries from before 2026-11-28 lack this field.
  for (const summary of summaries) if (summary !== null) summary.usage.cache_write_1h_tokens ??= null;
  return summaries;
}
