/**
 * Finds which exchanges belong to which run, in one pass over the records of a capture database. Pure; command line.
 *
 * Memory: four bytes per exchange and about fifty per run, in columns outside the JavaScript heap, because a busy month
 * has a hundred thousand runs. To save memory, a run is identified by a key that is derived from its id. The id itself
 * is read from the database when needed.
 */

import { hash } from 'node:crypto';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';

/** Maximum number of runs that a command remembers, about 50 bytes each. The latest runs are kept. */
export const CHAINED_RUNS = 1_000_000;

/** A run, as its records show it. */
export interface ChainedRun {
  /** Derived from the run's id by `keyOfRun`. */
  readonly key: string;
  readonly exchanges: number;
  readonly first_id: number;
  readonly last_id: number;
  /** When its last exchange ended, in milliseconds since the epoch. */
  readonly finished_ms: number;
  /** Whether the run is a client's side call, which is not a separate run. */
  readonly is_side: boolean;
  /** A hash of the run's exchanges, which shows changes even if a recreated database has the same ids. */
  readonly mark: string;
}

const KEY_BYTES = 16;
const KEY_WORDS = KEY_BYTES / 4;
/** Number of exchanges per piece of the chain. */
const PIECE = 65_536;
/** Number of records between two pauses in which the source may release memory and signals are handled. */
const ADDED_AT_ONCE = 20_000;
/** Number of recently seen runs in a cache by id; most exchanges belong to one of them. */
const RECENT_RUNS = 4_096;

/** The key for a run's id. */
export function keyOfRun(runId: string): string {
  return hash('sha256', runId, 'buffer').toString('base64url', 0, KEY_BYTES);
}

/** The runs in columns: one row per run, by first appearance. */
class RunColumns {
  readonly keys: Uint32Array;
  readonly first: Float64Array;
  readonly last: Float64Array;
  readonly finished: Float64Array;
  readonly exchanges: Uint32Array;
  readonly marks: Uint32Array;
  readonly sides: Uint8Array;
  readonly room: number;

  constructor(room: number, before: RunColumns | null = null) {
    this.room = room;
    this.keys = new Uint32Array(room * KEY_WORDS);
    this.first = new Float64Array(room);
    this.last = new Float64Array(room);
    this.finished = new Float64Array(room);
    this.exchanges = new Uint32Array(room);
    this.marks = new Uint32Array(room * 2);
    this.sides = new Uint8Array(room);
    if (before === null) return;
    for (const name of ['keys', 'first', 'last', 'finished', 'exchanges', 'marks', 'sides'] as const)
      this[name].set(before[name]);
  }

  /** Copies a row of another table to a place here. */
  take(place: number, others: RunColumns, from: number): void {
    for (let word = 0; word < KEY_WORDS; word++)
      this.keys[place * KEY_WORDS + word] = others.keys[from * KEY_WORDS + word]!;
    this.first[place] = others.first[from]!;
    this.last[place] = others.last[from]!;
    this.finished[place] = others.finished[from]!;
    this.exchanges[place] = others.exchanges[from]!;
    this.marks[place * 2] = others.marks[from * 2]!;
    this.marks[place * 2 + 1] = others.marks[from * 2 + 1]!;
    this.sides[place] = others.sides[from]!;
  }
}

export class RunChains {
  readonly #only: string | null;
  readonly #most: number;
  /** Number of runs that were forgotten because there are too many newer ones, and number of their exchanges. */
  forgotten = 0;
  forgotten_exchanges = 0;
  /** Exchanges that were skipped because they are not indexed yet, so that their runs are unknown. */
  not_indexed = 0;
  /** When the first of them began, in milliseconds since the epoch; infinity: all exchanges are indexed. */
  not_indexed_from_ms = Number.POSITIVE_INFINITY;
  #size = 0;
  #columns = new RunColumns(1_024);
  /** Hash table by the beginning of a key: the run's place plus one; 0 when empty. Half of it stays empty. */
  #table = new Uint32Array(4_096);
  readonly #recent = new Map<string, number>();
  #firstId = 0;
  /** For each id from the first on: the distance to the next exchange of the same run; 0 if it has no next exchange. */
  readonly #next: Uint32Array[] = [];

  /**
   * @param only id of the single run to follow; null for all runs
   * @param most maximum number of runs; the most recently continued runs are kept
   */
  constructor(only: string | null = null, most: number = CHAINED_RUNS) {
    this.#only = only;
    this.#most = Math.max(2, most);
  }

  get size(): number {
    return this.#size;
  }

  /** All runs, in the order of their first exchanges. */
  get runs(): Iterable<ChainedRun> {
    return this.#list((at) => at);
  }

  /** All runs, the most recently continued first. */
  get newest(): Iterable<ChainedRun> {
    const { last } = this.#columns;
    const order = Uint32Array.from({ length: this.#size }, (_, place) => place);
    order.sort((a, b) => last[b]! - last[a]!);
    return this.#list((at) => order[at]!);
  }

  /** All runs, the most recently begun first. */
  get youngest(): Iterable<ChainedRun> {
    return this.#list((at) => this.#size - 1 - at);
  }

  find(runId: string): ChainedRun | undefined {
    const place = this.#placeOf(readKey(runId));
    return place < 0 ? undefined : this.#at(place);
  }

  /**
   * Adds all existing records.
   * @param tell receives each record
   */
  async addAll(source: ExchangeSource, tell: (record: ListedExchange) => void = () => {}): Promise<void> {
    let next = 1;
    for (let added = ADDED_AT_ONCE; added === ADDED_AT_ONCE; ) {
      added = 0;
      for (const record of source.summaries({ from_id: next })) {
        this.add(record);
        next = record.id + 1;
        tell(record);
        if (++added === ADDED_AT_ONCE) break;
      }
      await source.release?.();
    }
  }

  /** Adds an exchange; call in the order of ids. Exchanges without a run are skipped. */
  add(record: ListedExchange): void {
    const { run_id: runId, id } = record;
    if (record.not_indexed) {
      this.not_indexed += 1;
      this.not_indexed_from_ms = Math.min(this.not_indexed_from_ms, Date.parse(record.started_at));
      return;
    }
    if (runId === null || (this.#only !== null && runId !== this.#only)) return;
    if (this.#firstId === 0) this.#firstId = id;
    const startedMs = Date.parse(record.started_at);
    const place = this.#recent.get(runId) ?? this.#findOrAdd(runId, id);
    const columns = this.#columns;
    const before = columns.last[place]!;
    if (before !== 0) this.#link(before, id);
    columns.exchanges[place]! += 1;
    columns.last[place] = id;
    columns.finished[place] = Math.max(columns.finished[place]!, startedMs + record.duration_ms);
    if (record.run_kind !== undefined && record.run_kind !== 'subagent') columns.sides[place] = 1;
    this.#mark(place, record);
  }

  /** Ids of a run's exchanges, ascending. */
  *idsOf(run: ChainedRun): Generator<number> {
    for (let id = run.first_id; ; ) {
      yield id;
      const place = id - this.#firstId;
      const step = this.#next[Math.floor(place / PIECE)]?.[place % PIECE] ?? 0;
      if (step === 0) return;
      id += step;
    }
  }

  *#list(placeAt: (at: number) => number): Generator<ChainedRun> {
    for (let at = 0; at < this.#size; at++) yield this.#at(placeAt(at));
  }

  #at(place: number): ChainedRun {
    const { keys, first, last, finished, exchanges, marks, sides } = this.#columns;
    const key = Buffer.alloc(KEY_BYTES);
    for (let word = 0; word < KEY_WORDS; word++) key.writeUInt32LE(keys[place * KEY_WORDS + word]!, word * 4);
    return {
      key: key.toString('base64url'),
      exchanges: exchanges[place]!,
      first_id: first[place]!,
      last_id: last[place]!,
      finished_ms: finished[place]!,
      is_side: sides[place] === 1,
      mark: `${marks[place * 2]!.toString(36)}-${marks[place * 2 + 1]!.toString(36)}`,
    };
  }

  #link(before: number, id: number): void {
    const place = before - this.#firstId;
    const piece = Math.floor(place / PIECE);
    // A piece stays undefined if none of its exchanges has a next exchange in its run.
    this.#next[piece] ??= new Uint32Array(PIECE);
    this.#next[piece][place % PIECE] = id - before;
  }

  #findOrAdd(runId: string, id: number): number {
    const key = readKey(runId);
    let place = this.#placeOf(key);
    if (place < 0) {
      if (this.#size >= this.#most) this.#forgetHalf();
      if (this.#size === this.#columns.room)
        this.#columns = new RunColumns(this.#columns.room * 2, this.#columns);
      place = this.#size++;
      for (let word = 0; word < KEY_WORDS; word++) this.#columns.keys[place * KEY_WORDS + word] = key[word]!;
      this.#columns.first[place] = id;
      this.#columns.finished[place] = Number.NEGATIVE_INFINITY;
      if (this.#size * 2 > this.#table.length) this.#rebuildTable(this.#table.length * 2);
      else this.#enter(place);
    }
    if (this.#recent.size >= RECENT_RUNS) this.#recent.clear();
    this.#recent.set(runId, place);
    return place;
  }

  /** Finds the place of the run with a key; −1: the run is not known. */
  #placeOf(key: Uint32Array): number {
    const { keys } = this.#columns;
    const mask = this.#table.length - 1;
    for (let at = key[0]! & mask; ; at = (at + 1) & mask) {
      const place = this.#table[at]! - 1;
      if (place < 0) return -1;
      let same = 0;
      while (same < KEY_WORDS && keys[place * KEY_WORDS + same] === key[same]) same++;
      if (same === KEY_WORDS) return place;
    }
  }

  #enter(place: number): void {
    const mask = this.#table.length - 1;
    let at = this.#columns.keys[place * KEY_WORDS]! & mask;
    while (this.#table[at] !== 0) at = (at + 1) & mask;
    this.#table[at] = place + 1;
  }

  #rebuildTable(length: number): void {
    this.#table = new Uint32Array(length);
    for (let place = 0; place < this.#size; place++) this.#enter(place);
  }

  /** Forgets the less recently continued half of the runs. */
  #forgetHalf(): void {
    const old = this.#columns;
    const ends = old.last.slice(0, this.#size).sort();
    const median = ends[ends.length >>> 1]!;
    const kept = new RunColumns(old.room);
    let size = 0;
    for (let place = 0; place < this.#size; place++) {
      if (old.last[place]! > median) kept.take(size++, old, place);
      else this.forgotten_exchanges += old.exchanges[place]!;
    }
    this.forgotten += this.#size - size;
    this.#size = size;
    this.#columns = kept;
    this.#recent.clear();
    this.#rebuildTable(this.#table.length);
  }

  /** Adds a record to the run's mark, by FNV-1a in two lanes. */
  #mark(place: number, record: ListedExchange): void {
    const { marks } = this.#columns;
    const { id, started_at, duration_ms, status, usage, model, stop_reason } = record;
    const sizes = `${record.request_bytes} ${record.response_bytes} ${usage.input_tokens} ${usage.output_tokens}`;
    const text = `${id} ${started_at} ${duration_ms} ${status} ${sizes} ${model} ${stop_reason}`;
    let a = marks[place * 2]! ^ 0x811c9dc5;
    let b = marks[place * 2 + 1]! ^ 0x1b873593;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      a = Math.imul(a ^ code, 0x01000193);
      b = Math.imul(b ^ code, 0x85ebca6b);
    }
    marks[place * 2] = a;
    marks[place * 2 + 1] = b;
  }
}

function readKey(runId: string): Uint32Array {
  const bytes = hash('sha256', runId, 'buffer');
  return Uint32Array.from({ length: KEY_WORDS }, (_, word) => bytes.readUInt32LE(word * 4));
}

/** Up to this many unwanted records in a row are read and dropped, because records are read in blocks. */
const PASSED_OVER = 64;

/** Reads the records of these ascending ids; missing ones are left out. */
export function* readSummaries(source: ExchangeSource, ids: Iterable<number>): Generator<ListedExchange> {
  let listed: Iterator<ListedExchange> | null = null;
  let at: ListedExchange | undefined;
  for (const id of ids) {
    if (listed === null || at === undefined || id - at.id > PASSED_OVER) {
      listed?.return?.();
      listed = source.summaries({ from_id: id })[Symbol.iterator]();
      at = nextOf(listed);
    }
    while (at !== undefined && at.id < id) at = nextOf(listed);
    if (at?.id === id) yield at;
  }
  listed?.return?.();
}

function nextOf(listed: Iterator<ListedExchange>): ListedExchange | undefined {
  const next = listed.next();
  return next.done === true ? undefined : next.value;
}
