/**
 * The index: what a decoder found in each exchange, and to which run it belongs. Used by the writer, off the hot path,
 * and by readers for exchanges that are not indexed yet.
 *
 * Grouping. A turn without `x-svc-run` belongs to the run that its client's own headers name (src/domain/client-run.ts);
 * without those to the run of an earlier turn whose conversation it goes on with. What proves that, the strongest first:
 *   1. its longest prefix that reaches to its last answer or beyond, and is an earlier request with its answer;
 *   2. its last answer alone: the client has rewritten or dropped what stands before it;
 *   3. its longest shorter prefix that is an earlier request, with its answer or without (the client has changed the
 *      answer).
 * A request that only repeats an earlier one goes on with it when that one failed and was not tried again yet; otherwise the shorter
 * prefixes decide, and with none it starts a run: the same first message sent again is a new run. So is a conversation
 * that starts anew, a sub-agent's say, or one after its client has summed up all that was said. A run that starts
 * without a label is called `conv_<id of its first exchange>`.
 *
 * Several turns may prove the same, since runs begin alike. Among them counts, in this order: the same system prompt to
 * the letter; a prompt about as similar as the best; that no later turn has gone on with it yet; the prompt's
 * similarity; being the latest. Where no answer proves anything (a retry, a changed answer), prompts that are not alike
 * are different agents.
 *
 * State. A request is looked up among the latest 50,000 turns: a map in memory, which the first use fills from the table
 * `tails` (id of a turn → whether it failed, eight bytes of the SHA-256 of each hash that stands for it, the sketch of
 * its system prompt, the turn that it goes on with; the run's name too when the turn lies in an earlier file, since
 * rotation takes the latest 10,000 along). The capture process writes; any thread reads.
 */

import { hash } from 'node:crypto';
import { type ClientRun, nameSideRun, readClientRun, type SideKind } from '../../domain/client-run.ts';
import type { ApiShape, ExchangeEntry, ExchangeKind, ExchangeRecord } from '../../domain/exchange.ts';
import { ALIKE, compareSketches, SKETCH_CHARS } from '../../domain/prompt-sketch.ts';
import { INDEXED_TURNS_CARRIED, INDEXED_TURNS_KNOWN } from '../../limits.ts';
import { leaveRest } from '../../std/own-memory.ts';
import { compressZstd, decompressZstd } from '../../std/zstd.ts';
import type { BlockReader } from './blocks.ts';
import { type CaptureEnv, CaptureFileError, readMetaNumber, readRunHeaders } from './layout.ts';
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

/** What a decoder finds, and what links turns (src/providers/conversation.ts); what is not there counts as null. */
export interface DecodedEntry extends ExchangeEntry {
  /** Request and answer, as a request that continues the answer has it among its prefixes; by the answer's id too. */
  answered?: string | null;
  answered_id?: string | null;
  /** The answer by itself, the last one in the request by itself, and where among the prefixes that one ends. */
  answer_alone?: string | null;
  last_answer_alone?: string | null;
  last_answer_at?: number;
  /** Whether it is a call beside the work of a client that offers, or does not always offer, its model tools. */
  findSideCall?: (offersTools: boolean) => SideKind | null;
  /** Makes the sketch of the system prompt. */
  sketchSystem?: () => string;
  /** The answer broke off, or ended with an error. */
  broke_off?: boolean;
  /** Told by the bodies where the path says nothing: then it is a turn. */
  told_shape?: ApiShape | null;
  /** False when the exchange turns out to be no turn, though its path says so. */
  is_turn?: boolean;
}

/** Reads the entry out of a stored copy. Pure, and never throws for a body that it cannot read. */
export type DecodeExchange = (copy: StoredCopy) => DecodedEntry;

/** Summaries that share one value of the table `facts`. */
export const FACTS_PER_BLOCK = 64;
/** Prefixes of one conversation that are looked up, the longest ones. */
const MAX_PREFIXES = 2_048;

/** Turns with one key that are compared, the latest ones. */
const MAX_CANDIDATES = 16;
/** How much less similar than the best a prompt may be to count as equally similar. */
const SIMILARITY_SLACK = 0.15;

/** One turn that later ones may go on with. */
interface Turn {
  id: number;
  failed: boolean;
  /** Set when the exchange lies in an earlier file. */
  run_id: string | null;
  /** Its run, when it was found since the index was opened: to read its summary takes longer than all else. */
  known_run: string | null;
  /** Of the request; then, when it was answered, of request and answer, and of the answer alone. */
  keys: string[];
  /** Of its system prompt; '' without one. */
  sketch: string;
  /** The turn of its run that it goes on with; 0 when it starts a conversation. */
  follows: number;
  /** A later turn goes on with it. */
  followed: boolean;
}

const KEY_BYTES = 8;

function makeTurnKey(conversationHash: string): string {
  return hash('sha256', conversationHash, 'buffer').toString('latin1', 0, KEY_BYTES);
}

const FAILED = 1;
const NAMED = 2;
const SKETCHED = 4;
const LINKED = 8;

/**
 * Flags, number of keys, the keys, then as the flags say: the turn that it follows, the sketch, the run's name. A turn
 * that follows another has that one's sketch, so in one file it is written once a run.
 */
function encodeTurn(turn: Turn): Buffer {
  const sketch = turn.follows !== 0 && turn.run_id === null ? '' : turn.sketch;
  const flags =
    (turn.failed ? FAILED : 0) |
    (turn.run_id === null ? 0 : NAMED) |
    (sketch === '' ? 0 : SKETCHED) |
    (turn.follows === 0 ? 0 : LINKED);
  const follows = Buffer.alloc(turn.follows === 0 ? 0 : 4);
  if (turn.follows !== 0) follows.writeUInt32LE(turn.follows);
  return Buffer.concat([
    Buffer.from([flags, turn.keys.length]),
    Buffer.from(turn.keys.join(''), 'latin1'),
    follows,
    Buffer.from(sketch, 'latin1'),
    Buffer.from(turn.run_id ?? '', 'utf8'),
  ]);
}

function decodeTurn(id: number, bytes: Buffer): Turn {
  const flags = bytes[0]!;
  const keys: string[] = [];
  let at = 2;
  for (let left = bytes[1]!; left > 0; left -= 1, at += KEY_BYTES)
    keys.push(bytes.toString('latin1', at, at + KEY_BYTES));
  const follows = (flags & LINKED) === 0 ? 0 : bytes.readUInt32LE(at);
  if (follows !== 0) at += 4;
  const sketch = (flags & SKETCHED) === 0 ? '' : bytes.toString('latin1', at, at + SKETCH_CHARS);
  at += sketch.length;
  const runId = (flags & NAMED) === 0 ? null : bytes.toString('utf8', at);
  const failed = (flags & FAILED) !== 0;
  return { id, failed, run_id: runId, known_run: null, keys, sketch, follows, followed: false };
}

/** The latest turns by what a later request would hold of them. */
class TurnMap {
  readonly #turns: Turn[] = [];
  #oldest = 0;
  readonly #byId = new Map<number, Turn>();
  /** Mostly one turn a key; else the latest few, oldest first. */
  readonly #byKey = new Map<string, Turn | Turn[]>();

  /** Adds the next turn, and notes that the one that it follows has been gone on with. */
  add(turn: Turn): void {
    this.#turns.push(turn);
    this.#byId.set(turn.id, turn);
    const before = turn.follows === 0 ? undefined : this.#byId.get(turn.follows);
    if (before !== undefined) before.followed = true;
    for (const key of turn.keys) this.#addKey(key, turn);
    if (this.#turns.length - this.#oldest <= INDEXED_TURNS_KNOWN) return;
    const gone = this.#turns[this.#oldest++]!;
    this.#byId.delete(gone.id);
    for (const key of gone.keys) this.#dropKey(key, gone);
    if (this.#oldest > INDEXED_TURNS_KNOWN) {
      this.#turns.splice(0, this.#oldest);
      this.#oldest = 0;
    }
  }

  #addKey(key: string, turn: Turn): void {
    const known = this.#byKey.get(key);
    if (known === undefined) this.#byKey.set(key, turn);
    else if (!Array.isArray(known)) this.#byKey.set(key, [known, turn]);
    else {
      known.push(turn);
      if (known.length > MAX_CANDIDATES) known.shift();
    }
  }

  #dropKey(key: string, gone: Turn): void {
    const known = this.#byKey.get(key);
    if (known === gone) this.#byKey.delete(key);
    else if (Array.isArray(known) && known[0] === gone) {
      known.shift();
      if (known.length === 1) this.#byKey.set(key, known[0]!);
    }
  }

  /**
   * The turn that a request with this key goes on with, or null.
   * @param sketch makes the sketch of the request's system prompt
   * @param isWhole the key stands for the whole request: without an answer only a failed turn counts
   */
  find(key: string, sketch: () => string, isWhole: boolean): Turn | null {
    const known = this.#byKey.get(key);
    if (known === undefined) return null;
    if (!Array.isArray(known)) {
      const isCertain = known.keys[0] !== key;
      return isCertain || measure(known, key, sketch(), isWhole) >= 0 ? known : null;
    }
    let best = -1;
    const compared = sketch();
    const similarities = known.map((turn) => measure(turn, key, compared, isWhole));
    for (const similarity of similarities) best = Math.max(best, similarity);
    if (best < 0) return null;
    let chosen: Turn | null = null;
    let chosenSimilarity = -1;
    for (const [i, turn] of known.entries()) {
      const similarity = similarities[i]!;
      if (similarity < 0 || similarity < best - SIMILARITY_SLACK) continue;
      const isBetter =
        chosen === null ||
        (chosen.followed && !turn.followed) ||
        (chosen.followed === turn.followed && similarity >= chosenSimilarity);
      if (!isBetter) continue;
      chosen = turn;
      chosenSimilarity = similarity;
    }
    return chosen;
  }

  get(id: number): Turn | undefined {
    return this.#byId.get(id);
  }

  listLatest(count: number): Turn[] {
    return this.#turns.slice(Math.max(this.#oldest, this.#turns.length - count));
  }
}

/** How similar the prompts are, 0 to 1, and 2 for the same; -1 when a request with this key does not go on with the turn. */
function measure(turn: Turn, key: string, sketch: string, isWhole: boolean): number {
  const similarity = compareSketches(turn.sketch, sketch);
  const isAnswered = turn.keys[0] !== key;
  if (isAnswered) return similarity;
  // A failed call is tried again once: what tries it a third time goes on with the second.
  const isRetry = turn.failed && !turn.followed;
  return (isWhole && !isRetry) || similarity < ALIKE ? -1 : similarity;
}

function blockKey(id: number, firstId: number): number {
  return Math.max(firstId, id - ((id - 1) % FACTS_PER_BLOCK));
}

/** Encoded as rows of values, so that 64 of them compress well and names are not repeated. */
function encodeSummaries(summaries: (ExchangeSummary | null)[]): Buffer {
  return compressZstd(Buffer.from(JSON.stringify(summaries), 'utf8'));
}

function unpackSummaries(value: Buffer): Buffer {
  return decompressZstd(value, { maxOutputLength: 256 << 20 });
}

function decodeSummaries(value: Buffer): (ExchangeSummary | null)[] {
  return JSON.parse(unpackSummaries(value).toString('utf8')) as (ExchangeSummary | null)[];
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
function decodeSafely(decode: DecodeExchange, copy: StoredCopy): DecodedEntry {
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
  #env: CaptureEnv;
  #blocks: BlockReader;
  readonly #firstId: number;
  /** Last id whose entry is in the file. */
  #stored: number;
  /** The id after which those found here begin: `#stored`, or less when the writer has caught up with some of them. */
  #foundAfter: number;
  /** Found by a reader, as the file would hold them, null for what cannot be read: there may be a million. Each has FACTS_PER_BLOCK. */
  #packed: Buffer[] = [];
  /** Found since; ids are without holes. A reader's are null where an exchange cannot be read; a writer's never. */
  #pending: (ExchangeSummary | null)[] = [];
  /** The writer's, to be written. */
  #pendingTurns: Turn[] = [];
  readonly #isWriter: boolean;
  readonly #runHeaders: readonly string[];
  #turnMap: TurnMap | null = null;
  #lastBlock: { key: number; summaries: (ExchangeSummary | null)[] } | null = null;
  #lastPacked: { at: number; summaries: (ExchangeSummary | null)[] } | null = null;

  /** @param isWriter what is found will be stored */
  constructor(env: CaptureEnv, blocks: BlockReader, isWriter: boolean) {
    this.#env = env;
    this.#blocks = blocks;
    this.#isWriter = isWriter;
    this.#runHeaders = readRunHeaders(env);
    this.#firstId = blocks.readFirstId();
    this.#stored = readMetaNumber(env, 'indexed', this.#firstId - 1);
    this.#foundAfter = this.#stored;
  }

  /** Goes on with another view of the same file: what was found is kept. */
  moveTo(env: CaptureEnv, blocks: BlockReader): void {
    this.#env = env;
    this.#blocks = blocks;
    this.#lastBlock = null;
  }

  /** Last id that is indexed, written or not. */
  get indexed(): number {
    return this.#foundAfter + this.#packed.length * FACTS_PER_BLOCK + this.#pending.length;
  }

  /** Of them, those that are not written. */
  get pending(): number {
    return this.indexed - this.#stored;
  }

  /** For readers: the writer may have come further. Drops what was computed here and is in the file now. */
  refresh(): void {
    const stored = readMetaNumber(this.#env, 'indexed', this.#firstId - 1);
    if (stored === this.#stored) return;
    if (stored >= this.indexed) {
      this.#foundAfter = stored;
      this.#packed = [];
      this.#lastPacked = null;
      this.#pending = [];
      this.#turnMap = null;
    }
    this.#stored = stored;
    this.#lastBlock = null;
  }

  /** The summary of an indexed exchange; null when it could not be read, undefined beyond `indexed`. */
  readSummary(id: number): ExchangeSummary | null | undefined {
    if (id > this.#stored) return this.#readFound(id - this.#foundAfter - 1);
    if (id < this.#firstId) return undefined;
    const key = blockKey(id, this.#firstId);
    return this.#readBlock(key)[id - key];
  }

  /**
   * The first id from this one on that may belong to the run. Of what is in the file, whole blocks are passed over whose
   * text does not name it: to read their records would take ten times as long.
   */
  findRun(id: number, runId: string): number {
    const name = Buffer.from(`"run_id":${JSON.stringify(runId)}`);
    let at = id;
    while (at >= this.#firstId && at <= this.#stored) {
      const value = this.#env.facts.get(blockKey(at, this.#firstId));
      if (value === undefined || unpackSummaries(value).includes(name)) return at;
      at = Math.min(at - ((at - 1) % FACTS_PER_BLOCK) + FACTS_PER_BLOCK, this.#stored + 1);
    }
    return at;
  }

  #readFound(at: number): ExchangeSummary | null | undefined {
    const block = Math.floor(at / FACTS_PER_BLOCK);
    if (block >= this.#packed.length) return this.#pending[at - this.#packed.length * FACTS_PER_BLOCK];
    if (this.#lastPacked?.at !== block)
      this.#lastPacked = { at: block, summaries: decodeSummaries(this.#packed[block]!) };
    return this.#lastPacked.summaries[at % FACTS_PER_BLOCK];
  }

  #readBlock(key: number): (ExchangeSummary | null)[] {
    if (this.#lastBlock?.key === key) return this.#lastBlock.summaries;
    const value = this.#env.facts.get(key);
    const summaries = value === undefined ? [] : decodeSummaries(value);
    this.#lastBlock = { key, summaries };
    return summaries;
  }

  /**
   * Indexes the next exchange in memory; false when there is none. A reader goes past one that is damaged.
   * @throws {import('./layout.ts').CaptureFileError} damaged, for the writer
   */
  indexNext(decode: DecodeExchange): boolean {
    const id = this.indexed + 1;
    let summary: ExchangeSummary | null = null;
    try {
      const meta = this.#blocks.readMeta(id);
      if (meta === undefined) return false;
      const { record } = meta;
      const { entry, kind, shape } = this.#readEntry(meta, decode);
      const client = kind === 'turn' ? this.#readClientRun(record, entry) : null;
      const runId = kind === 'turn' ? this.#addTurn(record, entry, client) : record.run_id;
      summary = summarize({ ...record, kind, shape }, runId, entry, client);
    } catch (error) {
      if (this.#isWriter || !(error instanceof CaptureFileError)) throw error;
    }
    this.#pending.push(summary);
    if (!this.#isWriter && this.#pending.length === FACTS_PER_BLOCK) {
      this.#lastPacked = { at: this.#packed.length, summaries: this.#pending };
      this.#packed.push(leaveRest(encodeSummaries(this.#pending)));
      this.#pending = [];
    }
    return true;
  }

  /** The summary of an exchange that tells all by itself; undefined for a turn whose run those before it tell. */
  readAlone(meta: StoredMeta, decode: DecodeExchange): ExchangeSummary | undefined {
    const { record } = meta;
    const { entry, kind, shape } = this.#readEntry(meta, decode);
    const client = kind === 'turn' ? this.#readClientRun(record, entry) : null;
    const runId = record.run_id ?? client?.run_id ?? null;
    if (kind === 'turn' && runId === null) return undefined;
    return summarize({ ...record, kind, shape }, runId, entry, client);
  }

  /** The run that the client's own headers name; null for none, and where the request says its run. */
  #readClientRun(record: ExchangeRecord, entry: DecodedEntry | null): ClientRun | null {
    if (record.run_id !== null) return null;
    const run = readClientRun(record.request.headers, this.#runHeaders);
    if (run === null) return null;
    const side = entry?.findSideCall?.(run.always_offers_tools) ?? null;
    return side === null || (run.kind !== null && run.kind !== 'subagent') ? run : nameSideRun(run, side);
  }

  /** What its bodies tell; the entry is null where there is nothing to decode. */
  #readEntry(
    meta: StoredMeta,
    decode: DecodeExchange,
  ): { entry: DecodedEntry | null; kind: ExchangeKind; shape: ApiShape | null } {
    const { id, shape, kind, method } = meta.record;
    // Only a POST is a turn, also under a path that tells nothing.
    const bodies = shape === null && method !== 'POST' ? undefined : this.#blocks.readBodies(id, meta);
    if (bodies === undefined) return { entry: null, kind, shape };
    const entry = decodeSafely(decode, makeStoredCopy(meta, bodies.request, bodies.response));
    if (shape === null) {
      const told = entry.told_shape ?? null;
      return told === null ? { entry: null, kind, shape } : { entry, kind: 'turn', shape: told };
    }
    return { entry, kind: entry.is_turn === false ? 'other' : kind, shape };
  }

  /** Makes a turn known to later ones. @returns its run */
  #addTurn(record: ExchangeRecord, entry: DecodedEntry | null, client: ClientRun | null): string {
    const { id } = record;
    const conversation = entry?.conversation ?? [];
    let before = entry === null ? null : this.#findBefore(entry);
    const found = before === null ? null : this.#readRun(before);
    const runId = record.run_id ?? client?.run_id ?? found ?? `conv_${id}`;
    // A labelled turn goes on with one of its own run or with none.
    if (found !== runId) before = null;
    const broke = record.status === 0 || record.status >= 400 || record.aborted;
    const hashes = [conversation[conversation.length - 1]];
    if (!broke && hashes[0] !== undefined) {
      hashes.push(entry?.answered ?? undefined, entry?.answer_alone ?? undefined);
      hashes.push(entry?.answered_id ?? undefined);
    }
    const keys = hashes.filter((text) => text !== undefined).map(makeTurnKey);
    if (keys.length === 0) return runId;
    const failed = broke || entry?.broke_off === true;
    // A run's prompt is looked at once: to sketch a long one takes longer than all else here.
    const sketch = before?.sketch ?? entry?.sketchSystem?.() ?? '';
    const follows = before?.id ?? 0;
    // The text of the turn before, if it is the same: there is one for each run.
    const known = found === runId ? found : runId;
    const turn = { id, failed, run_id: null, known_run: known, keys, sketch, follows, followed: false };
    const turns = this.#turns();
    if (this.#isWriter) this.#pendingTurns.push(turn);
    turns.add(turn);
    return runId;
  }

  /** The earlier turn that a request goes on with; null when it starts a run. */
  #findBefore(entry: DecodedEntry): Turn | null {
    const { conversation, last_answer_alone: alone = null, last_answer_at: at = -1 } = entry;
    const sketch = entry.sketchSystem ?? ((): string => '');
    const turns = this.#turns();
    const last = conversation.length - 1;
    const shortest = Math.max(0, conversation.length - MAX_PREFIXES);
    let i = last;
    for (; i >= Math.max(at, shortest); i -= 1) {
      const found = turns.find(makeTurnKey(conversation[i]!), sketch, i === last);
      if (found !== null) return found;
    }
    const found = alone === null ? null : turns.find(makeTurnKey(alone), sketch, false);
    if (found !== null) return found;
    for (; i >= shortest; i -= 1) {
      const found = turns.find(makeTurnKey(conversation[i]!), sketch, i === last);
      if (found !== null) return found;
    }
    return null;
  }

  #readRun(turn: Turn): string | null {
    return turn.run_id ?? turn.known_run ?? this.readSummary(turn.id)?.run_id ?? null;
  }

  /** Filled from the file at first use. */
  #turns(): TurnMap {
    if (this.#turnMap !== null) return this.#turnMap;
    const latest: Turn[] = [];
    for (const { key, value } of this.#env.tails.getRange({
      reverse: true,
      limit: INDEXED_TURNS_KNOWN,
      snapshot: false,
    })) {
      latest.push(decodeTurn(key, value));
    }
    const map = new TurnMap();
    for (let i = latest.length - 1; i >= 0; i--) {
      const turn = latest[i]!;
      if (turn.id > this.#stored) continue;
      if (turn.sketch === '' && turn.follows !== 0 && turn.run_id === null)
        turn.sketch = map.get(turn.follows)?.sketch ?? this.#readSketch(turn.follows);
      map.add(turn);
    }
    this.#turnMap = map;
    return map;
  }

  /** Of a turn that is not in memory: its own, or that of the one that its run began with. */
  #readSketch(id: number): string {
    for (let at = id; ; ) {
      const value = this.#env.tails.get(at);
      if (value === undefined) return '';
      const { sketch, follows, run_id: runId } = decodeTurn(at, value);
      if (sketch !== '' || follows === 0 || runId !== null) return sketch;
      at = follows;
    }
  }

  /** Writes what is pending, in one transaction. For the writer alone. @throws lmdb's error; nothing is lost then */
  store(): void {
    if (this.#pending.length === 0) return;
    const blocks = new Map<number, (ExchangeSummary | null)[]>();
    for (let i = 0; i < this.#pending.length; i++) {
      const id = this.#stored + 1 + i;
      const key = blockKey(id, this.#firstId);
      let block = blocks.get(key);
      if (block === undefined) {
        block = id === key ? [] : this.#readBlock(key).slice(0, id - key);
        blocks.set(key, block);
      }
      block.push(this.#pending[i] ?? null);
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
    this.#foundAfter = indexed;
    this.#pending = [];
    this.#pendingTurns = [];
    const [key, summaries] = [...blocks].at(-1)!;
    this.#lastBlock = { key, summaries };
  }

  /** The latest turns with their runs, for the `tails` of the file that comes after this one. */
  listCarriedTurns(): { key: number; value: Buffer }[] {
    return this.#turns()
      .listLatest(INDEXED_TURNS_CARRIED)
      .flatMap((turn) => {
        const run = this.#readRun(turn);
        return run === null ? [] : [{ key: turn.id, value: encodeTurn({ ...turn, run_id: run }) }];
      });
  }

  /** The record as the world sees it; for an exchange beyond the index, without its entry. */
  complete(record: ExchangeRecord): ExchangeRecord {
    const summary = this.readSummary(record.id);
    return summary ? completeRecord(record, summary) : record;
  }
}
