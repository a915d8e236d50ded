/**
 * Facts of exchanges that were read before their turn in the index. Exchanges are indexed in id order. If an exchange
 * was stored without facts, under pressure, the facts of later exchanges wait until it is indexed. These facts wait in
 * the file: in rows of the table `early`, which are written in the transaction that stores the exchanges, and removed
 * in the transaction that writes the summaries. The rows are only an addition: if a row is missing, damaged or of
 * another version, its exchanges are read from their stored copy. Capture process, and commands that rewrite a capture
 * file. Bounds: rows of EARLY_BYTES in all; beyond that, exchanges are stored without facts. In memory: one row that
 * was read, and the rows of one write.
 */
import { constants } from 'node:zlib';
import { compressZstd, decompressZstd } from '../../std/zstd.ts';
import type { ValueTable } from '../lmdb/sealed-table.ts';
import type { ExchangeFacts, LinkEntry } from './exchange-facts.ts';
import type { ExchangeSummary } from './record.ts';

/** Raise it when the format of the rows changes. Rows of another version are ignored. */
const VERSION = 1;
const EARLY_BYTES = 256 << 20;
/** A row is complete when it has this number of exchanges, or this number of hashes. */
const ROW_EXCHANGES = 64;
const ROW_HASHES = 16_384;
/** Rows are written while exchanges arrive too fast. */
const FAST = { [constants.ZSTD_c_compressionLevel]: 1 };
/** Maximum length of a decompressed row. The length in the row's head may be wrong, because rows can be damaged. */
const ROW_BYTES_MAX = 256 << 20;

type StoredEntry = Omit<LinkEntry, 'sketchSystem'> & { sketch: string };
type StoredFacts = [summary: ExchangeSummary, client_run: string | null, entry: StoredEntry | null];

interface Row {
  key: number;
  /** The last exchange with facts in the row. */
  last: number;
  facts: Map<number, ExchangeFacts>;
}

export class EarlyFacts {
  readonly #table: ValueTable<number>;
  readonly #maxBytes: number;
  #staged: { key: number; value: Buffer }[] = [];
  #row: Row | null = null;
  /** The rows that were not read yet have facts only of exchanges from this id on. */
  #nextKey = 0;
  /** Keys of rows that are not needed once the indexed exchanges are written. */
  #done: number[] = [];

  /** @param maxBytes bound of the rows in the file */
  constructor(table: ValueTable<number>, maxBytes = EARLY_BYTES) {
    this.#table = table;
    this.#maxBytes = maxBytes;
  }

  /** Whether the rows take as much of the file as they may. */
  get isFull(): boolean {
    return measureTable(this.#table) >= this.#maxBytes;
  }

  /** Makes rows of facts, in id order. `takeStaged` returns them. */
  stage(facts: readonly ExchangeFacts[]): void {
    let some: ExchangeFacts[] = [];
    let hashes = 0;
    for (const each of facts) {
      some.push(each);
      hashes += each.entry?.conversation.length ?? 0;
      if (some.length < ROW_EXCHANGES && hashes < ROW_HASHES) continue;
      this.#staged.push(encodeRow(some));
      some = [];
      hashes = 0;
    }
    if (some.length > 0) this.#staged.push(encodeRow(some));
  }

  /**
   * Returns the write of the staged rows. Call its `run` in the transaction that stores the exchanges, and its `settle`
   * after that transaction. null: no row was staged. If the transaction fails, the file must be opened again.
   */
  takeStaged(): { run(): void; settle(): void } | null {
    const rows = this.#staged;
    this.#staged = [];
    const [first] = rows;
    if (first === undefined) return null;
    return {
      run: () => {
        for (const { key, value } of rows) this.#table.putSync(key, value);
      },
      settle: () => {
        this.#nextKey = Math.min(this.#nextKey, first.key);
      },
    };
  }

  /** Returns the facts of the next exchange to index; undefined if no row has them. */
  take(id: number): ExchangeFacts | undefined {
    if (this.#row === null && id >= this.#nextKey) this.#find(id);
    const row = this.#row;
    const facts = row?.facts.get(id);
    if (row !== null && id >= row.last) {
      this.#done.push(row.key);
      this.#row = null;
    }
    return facts;
  }

  #find(id: number): void {
    for (const key of this.#table.getKeys({ start: id, reverse: true, limit: 1, snapshot: false })) {
      const row = this.#read(key);
      if (row === null) this.#done.push(key);
      else if (row.last >= id) {
        this.#row = row;
        this.#nextKey = row.last + 1;
        return;
      }
    }
    this.#nextKey = Number.POSITIVE_INFINITY;
    for (const key of this.#table.getKeys({ start: id + 1, limit: 1, snapshot: false })) this.#nextKey = key;
  }

  #read(key: number): Row | null {
    try {
      const value = this.#table.get(key);
      return value === undefined ? null : decodeRow(key, value);
    } catch {
      // The row is damaged.
      return null;
    }
  }

  /** Lists the keys of the rows to remove in the transaction that writes the exchanges that were taken. */
  listDone(): number[] {
    return this.#done;
  }

  /** Removes rows, within a transaction. */
  remove(keys: readonly number[]): void {
    for (const key of keys) this.#table.removeSync(key);
  }

  /** Records that the rows of `listDone` were removed. */
  settle(): void {
    this.#done = [];
  }

  /** Forgets what was read, because rows were removed. */
  forget(): void {
    this.#row = null;
    this.#nextKey = 0;
  }
}

/** Lists the keys of the rows that may have facts of exchanges up to this one. */
export function listEarlyKeys(table: ValueTable<number>, lastId = Number.POSITIVE_INFINITY): number[] {
  return [...table.getKeys({ end: Math.min(lastId + 1, 0xff_ff_ff_ff), snapshot: false })];
}

function measureTable(table: ValueTable<number>): number {
  const stats = table.getStats() as unknown as Record<string, number>;
  const { treeBranchPageCount = 0, treeLeafPageCount = 0, overflowPages = 0, pageSize = 0 } = stats;
  return (treeBranchPageCount + treeLeafPageCount + overflowPages) * pageSize;
}

function encodeRow(facts: readonly ExchangeFacts[]): { key: number; value: Buffer } {
  const stored = facts.map(
    ({ summary, client_run, entry }): StoredFacts => [
      summary,
      client_run,
      entry === null ? null : encodeEntry(entry),
    ],
  );
  const json = Buffer.from(JSON.stringify([VERSION, stored]), 'utf8');
  return { key: facts[0]!.summary.id, value: compressZstd(json, { params: FAST, chunkSize: json.length }) };
}

/** Encodes an entry. The entry's functions would need the whole conversation later, so the sketch is computed now. */
function encodeEntry(entry: LinkEntry): StoredEntry {
  return {
    conversation: entry.conversation,
    answered: entry.answered ?? null,
    answered_id: entry.answered_id ?? null,
    answer_alone: entry.answer_alone ?? null,
    last_answer_alone: entry.last_answer_alone ?? null,
    last_answer_at: entry.last_answer_at ?? -1,
    broke_off: entry.broke_off === true,
    sketch: entry.sketchSystem?.() ?? '',
  };
}

/** null: the row is of another version. */
function decodeRow(key: number, value: Buffer): Row | null {
  const json = decompressZstd(value, { maxOutputLength: ROW_BYTES_MAX }).toString('utf8');
  const [version, stored] = JSON.parse(json) as [number, StoredFacts[]];
  if (version !== VERSION) return null;
  const facts = new Map<number, ExchangeFacts>();
  let last = key;
  for (const [summary, client_run, entry] of stored) {
    last = summary.id;
    facts.set(last, {
      summary,
      client_run,
      entry: entry === null ? null : decodeEntry(entry),
      listTexts: undefined,
    });
  }
  return { key, last, facts };
}

function decodeEntry({ sketch, ...entry }: StoredEntry): LinkEntry {
  return { ...entry, sketchSystem: () => sketch };
}
