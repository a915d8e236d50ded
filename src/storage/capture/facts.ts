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
 * State. A request is looked up among the latest 50,000 turns: a map in memory, which the first use fills from the table
 * `tails` (id of a turn → whether it failed, and eight bytes of the SHA-256 of each hash that stands for it; the run's
 * name too when the turn lies in an earlier file, since rotation takes the latest 10,000 along).
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
/** Turns that later ones can be found to extend. */
const MAX_TURNS = 50_000;
/** Of those, how many are taken along into a new file. */
const CARRIED_TURNS = 10_000;

/** One turn that later ones may extend. */
interface Turn {
  id: number;
  failed: boolean;
  /** Set when the exchange lies in an earlier file. */
  run_id: string | null;
  /** Of the request; then, when it was answered, of request and answer. */
  keys: string[];
}

const KEY_BYTES = 8;

function makeTurnKey(conversationHash: string): string {
  return hash('sha256', conversationHash, 'buffer').toString('latin1', 0, KEY_BYTES);
}

/** Flags (1 failed, 2 a run's name follows), number of keys, the keys, the name. */
function encodeTurn(turn: Turn): Buffer {
  const keys = Buffer.from(turn.keys.join(''), 'latin1');
  const head = Buffer.from([(turn.failed ? 1 : 0) | (turn.run_id === null ? 0 : 2), turn.keys.length]);
  return Buffer.concat([head, keys, Buffer.from(turn.run_id ?? '', 'utf8')]);
}

function decodeTurn(id: number, bytes: Buffer): Turn {
  const keys: string[] = [];
  const end = 2 + bytes[1]! * KEY_BYTES;
  for (let at = 2; at < end; at += KEY_BYTES) keys.push(bytes.toString('latin1', at, at + KEY_BYTES));
  const named = (bytes[0]! & 2) !== 0;
  return { id, failed: (bytes[0]! & 1) !== 0, run_id: named ? bytes.toString('utf8', end) : null, keys };
}

/** The latest turns by what a later request would hold of them. */
class TurnMap {
  readonly #turns: Turn[] = [];
  #oldest = 0;
  readonly #byKey = new Map<string, { turn: Turn; is_answer: boolean }>();

  add(turn: Turn): void {
    this.#turns.push(turn);
    for (const [i, key] of turn.keys.entries()) this.#byKey.set(key, { turn, is_answer: i > 0 });
    if (this.#turns.length - this.#oldest <= MAX_TURNS) return;
    const gone = this.#turns[this.#oldest++]!;
    for (const key of gone.keys) if (this.#byKey.get(key)?.turn === gone) this.#byKey.delete(key);
    if (this.#oldest > MAX_TURNS) {
      this.#turns.splice(0, this.#oldest);
      this.#oldest = 0;
    }
  }

  find(key: string): { turn: Turn; is_answer: boolean } | undefined {
    return this.#byKey.get(key);
  }

  listLatest(count: number): Turn[] {
    return this.#turns.slice(Math.max(this.#oldest, this.#turns.length - count));
  }
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

/** A decoder that throws after all must not hold up the index for ever: the exchange is undecodable. */
function decodeSafely(decode: DecodeExchange, copy: StoredCopy): IndexFacts {
  try {
    return decode(copy);
  } catch (error) {
    const usage = {
      input_tokens: null,
      output_tokens: null,
      cache_read_tokens: null,
      cache_write_tokens: null,
    };
    const reason = `the decoder failed: ${(error as Error).message}`;
    return { model: null, usage, stop_reason: null, undecodable: true, reason, conversation: [] };
  }
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
  #pendingTurns: Turn[] = [];
  #turnMap: TurnMap | null = null;
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
      this.#turnMap = null;
    } else this.#pending = this.#pending.slice(stored - this.#stored);
    this.#pendingTurns = this.#pendingTurns.filter((turn) => turn.id > stored);
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
      if (bodies !== undefined)
        facts = decodeSafely(decode, makeStoredCopy(meta, bodies.request, bodies.response));
    }
    let runId = record.run_id;
    if (record.kind === 'turn') {
      const conversation = facts?.conversation ?? [];
      runId ??= this.#findRun(conversation) ?? `conv_${id}`;
      const failed = record.status === 0 || record.status >= 400 || record.aborted;
      const hashes = [conversation[conversation.length - 1]];
      if (!failed && hashes[0] !== undefined) {
        hashes.push(facts?.answered ?? undefined);
        // Only these requests name the answer that they go on from.
        if (record.shape === 'responses') hashes.push(facts?.answered_id ?? undefined);
      }
      const keys = hashes.filter((text) => text !== undefined).map(makeTurnKey);
      if (keys.length > 0) {
        const turn = { id, failed, run_id: null, keys };
        this.#pendingTurns.push(turn);
        this.#turns().add(turn);
      }
    }
    this.#pending.push(summarize(record, runId, facts));
    return true;
  }

  #findRun(conversation: string[]): string | null {
    const turns = this.#turns();
    const shortest = Math.max(0, conversation.length - MAX_PREFIXES);
    for (let i = conversation.length - 1; i >= shortest; i--) {
      const found = turns.find(makeTurnKey(conversation[i]!));
      if (found === undefined) continue;
      const repeats = i === conversation.length - 1 && !found.is_answer;
      if (repeats && !found.turn.failed) continue;
      const run = found.turn.run_id ?? this.readSummary(found.turn.id)?.run_id ?? null;
      if (run !== null) return run;
    }
    return null;
  }

  /** Filled from the file at first use. */
  #turns(): TurnMap {
    if (this.#turnMap !== null) return this.#turnMap;
    const latest: Turn[] = [];
    for (const { key, value } of this.#env.tails.getRange({
      reverse: true,
      limit: MAX_TURNS,
      snapshot: false,
    })) {
      latest.push(decodeTurn(key, value));
    }
    const map = new TurnMap();
    for (let i = latest.length - 1; i >= 0; i--) if (latest[i]!.id <= this.#stored) map.add(latest[i]!);
    for (const turn of this.#pendingTurns) if (turn.id > this.#stored) map.add(turn);
    this.#turnMap = map;
    return map;
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
      for (const turn of this.#pendingTurns)
        this.#env.tails.putSync(turn.id, encodeTurn(turn), { append: true });
      this.#env.meta.putSync('indexed', Buffer.from(String(indexed)));
    });
    this.#stored = indexed;
    this.#pending = [];
    this.#pendingTurns = [];
    const [key, summaries] = [...blocks].at(-1)!;
    this.#lastBlock = { key, summaries };
  }

  /** The latest turns with their runs, for the `tails` of the file that comes after this one. */
  listCarriedTurns(): { key: number; value: Buffer }[] {
    return this.#turns()
      .listLatest(CARRIED_TURNS)
      .flatMap((turn) => {
        const run = turn.run_id ?? this.readSummary(turn.id)?.run_id ?? null;
        return run === null ? [] : [{ key: turn.id, value: encodeTurn({ ...turn, run_id: run }) }];
      });
  }

  /** The record as the world sees it; for an exchange beyond the index, without facts. */
  complete(record: ExchangeRecord): ExchangeRecord {
    const summary = this.readSummary(record.id);
    return summary === undefined ? record : completeRecord(record, summary);
  }
}
