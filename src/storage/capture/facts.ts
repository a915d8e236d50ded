/**
 * The index: what a decoder found in each exchange, and to which run it belongs. Used by the writer, off the hot path,
 * and by readers for exchanges that are not indexed yet.
 *
 * Grouping. A turn without `x-svc-run` belongs to the run of the earlier exchange whose conversation it extends: one of
 * its prefixes is that exchange's whole request, or that request with its answer. The longest prefix wins, and of equal
 * ones the latest exchange. A request that only repeats an earlier one belongs to its run when that one failed (a
 * retry); otherwise it is judged by its shorter prefixes, and starts a run if none is known: the same first message
 * sent again is a new run. A run that starts without a label is called `conv_<id of its first exchange>`.
 *
 * State. The table `tails` has one small entry for each hash that a request may extend: ten bytes of the hash's SHA-256
 * → id of the exchange, whether it failed, and its run when it lies in an earlier file. It grows with the file and no
 * further: rotation takes only the latest entries along.
 */
import { hash } from 'node:crypto';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { ApiShape, ExchangeFacts, ExchangeRecord } from '../../domain/exchange.ts';
import type { BlockReader } from './blocks.ts';
import { type CaptureEnv, readMetaNumber } from './layout.ts';
import { completeRecord, type ExchangeSummary, type StoredMeta, summarize } from './record.ts';

/** The stored copy as a decoder wants it. */
export interface StoredCopy {
  shape: ApiShape | null;
  path: string;
  status: number;
  /** Flat [name, value, …]; without content-encoding when the stored body is no longer in it. */
  request_headers: readonly string[];
  response_headers: readonly string[];
  request_body: Uint8Array;
  response_body: Uint8Array;
  truncated: boolean;
}

/** What a decoder finds. The two hashes, when there, say what a request that continues this answer contains. */
export interface IndexFacts extends ExchangeFacts {
  answered?: string | null;
  answered_id?: string | null;
}

/** Reads facts out of a stored copy. Pure, and never throws for a body that it cannot read. */
export type DecodeExchange = (copy: StoredCopy) => IndexFacts;

/** Summaries that share one value of the `facts` table. */
const FACTS_PER_BLOCK = 64;
/** Prefixes of one conversation that are looked up, the longest ones. */
const MAX_PREFIXES = 2_048;
/** Tails taken along into a new file. */
const CARRIED_TAILS = 10_000;

/** The earlier exchange that a hash stands for. */
interface Tail {
  exchange_id: number;
  failed: boolean;
  /** A request with its answer: to repeat it is to go on from it. */
  is_answer: boolean;
  /** Set when the exchange lies in an earlier file. */
  run_id: string | null;
}

function makeTailKey(conversationHash: string): Buffer {
  return hash('sha256', conversationHash, 'buffer').subarray(0, 10);
}

function encodeTail(tail: Tail): Buffer {
  const run = Buffer.from(tail.run_id ?? '', 'utf8');
  const out = Buffer.alloc(5 + run.length);
  out.writeUInt32LE(tail.exchange_id, 0);
  out[4] = (tail.failed ? 1 : 0) | (tail.is_answer ? 2 : 0) | (tail.run_id === null ? 0 : 4);
  run.copy(out, 5);
  return out;
}

function decodeTail(bytes: Buffer): Tail {
  const flags = bytes[4]!;
  return {
    exchange_id: bytes.readUInt32LE(0),
    failed: (flags & 1) !== 0,
    is_answer: (flags & 2) !== 0,
    run_id: (flags & 4) !== 0 ? bytes.toString('utf8', 5) : null,
  };
}

function blockKey(id: number, firstId: number): number {
  return Math.max(firstId, id - ((id - 1) % FACTS_PER_BLOCK));
}

/** Encoded as rows of values, so that 64 of them compress well and names are not repeated. */
function encodeSummaries(summaries: ExchangeSummary[]): Buffer {
  return zstdCompressSync(Buffer.from(JSON.stringify(summaries), 'utf8'));
}

function decodeSummaries(value: Buffer): ExchangeSummary[] {
  return JSON.parse(
    zstdDecompressSync(value, { maxOutputLength: 256 << 20 }).toString('utf8'),
  ) as ExchangeSummary[];
}

/** What the decoder gets of an exchange. */
export function makeStoredCopy(meta: StoredMeta, request: Buffer, response: Buffer): StoredCopy {
  const { record } = meta;
  return {
    shape: record.shape,
    path: record.path,
    status: record.status,
    request_headers: flattenHeaders(record.request.headers, meta.request_decoded),
    response_headers: flattenHeaders(record.response.headers, meta.response_decoded),
    request_body: request,
    response_body: response,
    truncated: record.truncated,
  };
}

function flattenHeaders(headers: [string, string][], decoded: boolean): string[] {
  return headers.filter(([name]) => !decoded || name.toLowerCase() !== 'content-encoding').flat();
}

/**
 * Walks exchanges in the order of their ids, decodes them and finds their runs. Holds what is not written yet, so that
 * a reader can go on from where the file's index ends without writing.
 */
export class ExchangeIndex {
  readonly #env: CaptureEnv;
  readonly #blocks: BlockReader;
  readonly #firstId: number;
  /** Last id whose facts are in the file. */
  #stored: number;
  /** Found since, by id; ids are without holes from `#stored` + 1. */
  #pending: ExchangeSummary[] = [];
  #pendingTails = new Map<string, { key: Buffer; tail: Tail }>();
  #lastBlock: { key: number; summaries: ExchangeSummary[] } | null = null;

  constructor(env: CaptureEnv, blocks: BlockReader) {
    this.#env = env;
    this.#blocks = blocks;
    this.#firstId = blocks.readFirstId();
    this.#stored = readMetaNumber(env, 'indexed', this.#firstId - 1);
  }

  /** Last id that is indexed, written or not. */
  get indexed(): number {
    return this.#stored + this.#pending.length;
  }

  get pending(): number {
    return this.#pending.length;
  }

  /** For readers: the writer may have come further. Drops what was computed here and is in the file now. */
  refresh(): void {
    const stored = readMetaNumber(this.#env, 'indexed', this.#firstId - 1);
    if (stored === this.#stored) return;
    if (stored >= this.indexed) {
      this.#pending = [];
      this.#pendingTails.clear();
    } else this.#pending = this.#pending.slice(stored - this.#stored);
    this.#stored = stored;
    this.#lastBlock = null;
  }

  /** The summary of an indexed exchange; undefined beyond `indexed`. */
  readSummary(id: number): ExchangeSummary | undefined {
    if (id > this.#stored) return this.#pending[id - this.#stored - 1];
    if (id < this.#firstId) return undefined;
    const key = blockKey(id, this.#firstId);
    return this.#readBlock(key)[id - key];
  }

  #readBlock(key: number): ExchangeSummary[] {
    if (this.#lastBlock?.key === key) return this.#lastBlock.summaries;
    const value = this.#env.facts.get(key);
    const summaries = value === undefined ? [] : decodeSummaries(value);
    this.#lastBlock = { key, summaries };
    return summaries;
  }

  /** Indexes the next exchange in memory; false when there is none. */
  indexNext(decode: DecodeExchange): boolean {
    const id = this.indexed + 1;
    const meta = this.#blocks.readMeta(id);
    if (meta === undefined) return false;
    const { record } = meta;
    let facts: IndexFacts | null = null;
    if (record.shape !== null) {
      const bodies = this.#blocks.readBodies(id, meta);
      if (bodies !== undefined) facts = decode(makeStoredCopy(meta, bodies.request, bodies.response));
    }
    let runId = record.run_id;
    if (record.kind === 'turn') {
      const conversation = facts?.conversation ?? [];
      runId ??= this.#findRun(conversation) ?? `conv_${id}`;
      const failed = record.status === 0 || record.status >= 400 || record.aborted;
      const last = conversation[conversation.length - 1];
      if (last !== undefined) this.#addTail(last, id, failed, false);
      if (!failed && facts?.answered != null) this.#addTail(facts.answered, id, false, true);
      if (!failed && facts?.answered_id != null) this.#addTail(facts.answered_id, id, false, true);
    }
    this.#pending.push(summarize(record, runId, facts));
    // The run of this exchange can be looked up from here on.
    return true;
  }

  #addTail(conversationHash: string, id: number, failed: boolean, isAnswer: boolean): void {
    const key = makeTailKey(conversationHash);
    this.#pendingTails.set(key.toString('latin1'), {
      key,
      tail: { exchange_id: id, failed, is_answer: isAnswer, run_id: null },
    });
  }

  #findRun(conversation: string[]): string | null {
    const shortest = Math.max(0, conversation.length - MAX_PREFIXES);
    for (let i = conversation.length - 1; i >= shortest; i--) {
      const key = makeTailKey(conversation[i]!);
      const stored = this.#pendingTails.get(key.toString('latin1'))?.tail ?? this.#readTail(key);
      if (stored === null) continue;
      const repeats = i === conversation.length - 1 && !stored.is_answer;
      if (repeats && !stored.failed) continue;
      const run = stored.run_id ?? this.readSummary(stored.exchange_id)?.run_id ?? null;
      if (run !== null) return run;
    }
    return null;
  }

  #readTail(key: Buffer): Tail | null {
    const value = this.#env.tails.get(key);
    return value === undefined ? null : decodeTail(value);
  }

  /** Writes what is pending, in one transaction. For the writer alone. @throws lmdb's error; nothing is lost then */
  store(): void {
    if (this.#pending.length === 0) return;
    const blocks = new Map<number, ExchangeSummary[]>();
    for (let i = 0; i < this.#pending.length; i++) {
      const id = this.#stored + 1 + i;
      const key = blockKey(id, this.#firstId);
      let block = blocks.get(key);
      if (block === undefined) {
        block = id === key ? [] : this.#readBlock(key).slice(0, id - key);
        blocks.set(key, block);
      }
      block.push(this.#pending[i]!);
    }
    const values = [...blocks].map(([key, summaries]) => ({ key, value: encodeSummaries(summaries) }));
    const indexed = this.indexed;
    this.#env.root.transactionSync(() => {
      for (const { key, value } of values) this.#env.facts.putSync(key, value);
      for (const { key, tail } of this.#pendingTails.values()) this.#env.tails.putSync(key, encodeTail(tail));
      this.#env.meta.putSync('indexed', Buffer.from(String(indexed)));
    });
    this.#stored = indexed;
    this.#pending = [];
    this.#pendingTails.clear();
    const [key, summaries] = [...blocks].at(-1)!;
    this.#lastBlock = { key, summaries };
  }

  /** The latest tails with their runs, for the file that comes after this one. */
  listCarriedTails(): { key: Buffer; value: Buffer }[] {
    const oldest = this.#stored - CARRIED_TAILS;
    const carried: { key: Buffer; tail: Tail }[] = [];
    for (const { key, value } of this.#env.tails.getRange({ snapshot: false })) {
      const tail = decodeTail(value);
      if (tail.exchange_id > oldest) carried.push({ key: Buffer.from(key), tail });
    }
    // In the order of ids, so that each block of summaries is unpacked once.
    carried.sort((a, b) => a.tail.exchange_id - b.tail.exchange_id);
    return carried.flatMap(({ key, tail }) => {
      const run = tail.run_id ?? this.readSummary(tail.exchange_id)?.run_id ?? null;
      return run === null ? [] : [{ key, value: encodeTail({ ...tail, run_id: run }) }];
    });
  }

  /** The record as the world sees it; for an exchange beyond the index, without facts. */
  complete(record: ExchangeRecord): ExchangeRecord {
    const summary = this.readSummary(record.id);
    return summary === undefined ? record : completeRecord(record, summary);
  }
}
