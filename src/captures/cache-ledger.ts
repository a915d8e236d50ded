/**
 * Keeps what turns lost by cache misses, by day, agent, cause and place. The exchanges are divided into parts by id.
 * The ledger keeps sums for each part, so that an exchange is not examined for each question. For a question it adds
 * these sums up. It begins with the newest part, and goes back only as far as needed. Pure except for its source;
 * capture reader and command line.
 *
 * Memory: at most PART_CELLS sums of some hundred bytes for each part, and MAX_PARTS parts; older exchanges are not
 * examined. Further sums of a part count under {@link OTHER_AGENTS}, without a place. At most two cache doctors at a
 * time keep prompts in memory.
 */

import {
  CACHE_ROWS,
  type CachePeriod,
  type CacheQuestion,
  type CacheTotals,
  type MissCause,
} from '../domain/cache-miss.ts';
import type { Prices } from '../domain/price.ts';
import { arrivalOf } from '../domain/run-order.ts';
import { CacheDoctor } from './cache-doctor.ts';
import { addTotals, CauseSums, missOf, nameRuns, startTotals, totalsOf } from './cache-sum.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';
import { endedDay } from './figure-cube.ts';

/** Number of consecutive ids in one part. */
const PART_IDS = 1_024;
const MAX_PARTS = 1_024;
const PART_CELLS = 512;
/** Number of exchanges that are sorted by arrival before they are examined. */
const BATCH = 64;
/**
 * Number of exchanges before a part that are examined but not counted: the part's first turns are compared with them.
 */
const EARLIER_EXCHANGES = 32;
/** Maximum characters of prompts in memory, for each of a doctor's two maps. */
const KEPT_CHARS = 8 << 20;
/** One doctor for the newest part, which grows, and one for an older part. */
const MAX_DOCTORS = 2;
const DAY_MS = 86_400_000;

/** The name for the agents of a part that has too many of them. */
export const OTHER_AGENTS = '(others)';

/** The first and the last existing id. */
interface IdRange {
  first_id: number;
  last_id: number;
}

/** Parts that an earlier reader stored. */
export interface KeptCacheParts {
  cacheParts(): Iterable<{ first_id: number; value: Buffer }>;
}

interface CacheChanges {
  cache: { first_id: number; value: Buffer }[];
  cache_gone: number[];
}

/**
 * Sums of turns of one day and agent with the same cause and place. The cell without a cause sums all turns of that day
 * and agent.
 */
interface Cell {
  day: string;
  agent: string;
  cause: MissCause | null;
  place: string | null;
  totals: CacheTotals;
  runs: string[];
}

export class CacheLedger {
  readonly #prices: Prices;
  /** The stored parts that must still be loaded; null: they are loaded. */
  #kept: KeptCacheParts | null;
  /** Parts by their first id. */
  readonly #parts = new Map<number, LedgerPart>();
  readonly #doctors = new Map<LedgerPart, CacheDoctor>();
  /** Complete parts that are not stored yet. */
  readonly #unkept = new Set<LedgerPart>();
  #gone: number[] = [];

  constructor(prices: Prices, kept: KeptCacheParts | null = null) {
    this.#prices = prices;
    this.#kept = kept;
  }

  /** Reads the stored parts at the first question, not in the constructor, because a damaged store throws. */
  #load(): void {
    for (const { first_id, value } of this.#kept?.cacheParts() ?? [])
      this.#parts.set(first_id, LedgerPart.from(first_id, value));
    this.#kept = null;
  }

  /**
   * Examines exchanges, from the newest part back to the first one that has exchanges of a day.
   * @param range up to the last exchange that is indexed
   * @param hasTime called before each exchange
   * @returns whether every exchange from that day on is examined, as far back as MAX_PARTS parts reach
   */
  follow(source: ExchangeSource, range: IdRange, fromDay: string, hasTime: () => boolean): boolean {
    this.#load();
    this.#forgetBefore(range.first_id);
    if (range.last_id < range.first_id) return true;
    const newest = startOfPart(range.last_id);
    const oldest = Math.max(startOfPart(range.first_id), newest - (MAX_PARTS - 1) * PART_IDS);
    for (let from_id = newest; from_id >= oldest; from_id -= PART_IDS) {
      let part = this.#parts.get(from_id);
      // Exchanges are in the order of their end. So exchanges of earlier parts began before this day, unless the source
      // says otherwise.
      if (
        part === undefined &&
        from_id !== newest &&
        endedBefore(source, from_id + PART_IDS - 1, fromDay) &&
        endedDay(source, from_id + PART_IDS) < fromDay
      )
        return true;
      if (part === undefined) {
        part = new LedgerPart(Math.max(from_id, range.first_id), from_id);
        this.#parts.set(from_id, part);
      }
      if (!part.isRead(range.last_id)) {
        if (!part.read(source, range.last_id, this.#doctorOf(source, part), hasTime)) return false;
        if (part.is_complete) {
          this.#doctors.delete(part);
          this.#unkept.add(part);
        }
      }
      if (part.last_ended_day < fromDay && endedDay(source, from_id) < fromDay) return true;
    }
    this.#dropParts((from_id) => from_id < oldest);
    return true;
  }

  sum({ from_day, to_day, agent }: CacheQuestion, is_whole: boolean): CachePeriod {
    const total = startTotals();
    const causes = new CauseSums();
    const agents = new Map<string, CacheTotals>();
    const days = new Map<string, CacheTotals>();
    for (const part of this.#parts.values())
      for (const cell of part.cells) {
        if (cell.day < from_day || cell.day > to_day) continue;
        if (cell.cause === null) addTo(agents, cell.agent, cell.totals);
        if (agent !== null && cell.agent !== agent) continue;
        if (cell.cause === null) {
          addTotals(total, cell.totals);
          addTo(days, cell.day, cell.totals);
        } else causes.add({ ...cell, ...cell.totals, cause: cell.cause });
      }
    const by_day = [...days].map(([day, totals]) => ({ day, ...totals }));
    by_day.sort((a, b) => (a.day < b.day ? -1 : 1));
    const by_agent = [...agents].map(([name, totals]) => ({ agent: name, ...totals }));
    by_agent.sort((a, b) => (b.cost_usd ?? 0) - (a.cost_usd ?? 0) || b.lost_tokens - a.lost_tokens);
    return {
      from_day,
      to_day,
      is_whole,
      ...total,
      days: by_day.length === 0 ? 0 : countDays(by_day[0]!.day, by_day.at(-1)!.day),
      causes: causes.list().slice(0, CACHE_ROWS),
      by_agent: by_agent.slice(0, CACHE_ROWS),
      by_day,
    };
  }

  get hasChanges(): boolean {
    return this.#unkept.size > 0 || this.#gone.length > 0;
  }

  /** Changes since the last call, to be stored. */
  takeChanges(): CacheChanges {
    const cache = [...this.#unkept].map((part) => ({ first_id: part.from_id, value: part.write() }));
    this.#unkept.clear();
    const cache_gone = this.#gone;
    this.#gone = [];
    return { cache, cache_gone };
  }

  /** Marks all complete parts as not stored, because the store was emptied. */
  storeAgain(): void {
    this.#load();
    this.#gone = [];
    for (const part of this.#parts.values()) if (part.is_complete) this.#unkept.add(part);
  }

  /** Drops parts with deleted exchanges, which must not count. Such a part is examined again. */
  #forgetBefore(firstId: number): void {
    this.#dropParts((from_id, part) => from_id + PART_IDS <= firstId || part.first_id < firstId);
  }

  #dropParts(isGone: (fromId: number, part: LedgerPart) => boolean): void {
    for (const [from_id, part] of this.#parts) {
      if (!isGone(from_id, part)) continue;
      this.#parts.delete(from_id);
      this.#doctors.delete(part);
      this.#unkept.delete(part);
      this.#gone.push(from_id);
    }
  }

  #doctorOf(source: ExchangeSource, part: LedgerPart): CacheDoctor {
    let doctor = this.#doctors.get(part);
    if (doctor === undefined) {
      doctor = new CacheDoctor(source, this.#prices, KEPT_CHARS);
      for (const record of readBatch(source, part.next_id - EARLIER_EXCHANGES, part.next_id))
        doctor.examine({ record, follows: record.follows ?? null });
    }
    // Moves the doctor to the end of the map, which is in the order of last use.
    this.#doctors.delete(part);
    this.#doctors.set(part, doctor);
    if (this.#doctors.size > MAX_DOCTORS) this.#doctors.delete(this.#doctors.keys().next().value!);
    return doctor;
  }
}

/** The sums of exchanges with consecutive ids. */
class LedgerPart {
  /** The first id of the part that existed when the part was examined. */
  readonly first_id: number;
  /** The first id that the part can contain. */
  readonly from_id: number;
  /** Id of the next exchange to examine. */
  next_id: number;
  /** The latest UTC day on which an examined exchange ended; '9999' before the first exchange is examined. */
  last_ended_day = '9999';
  /** Exchanges that are read but not examined yet, in reverse order: the last one is examined next. */
  #batch: ListedExchange[] = [];
  readonly #cells = new Map<string, Cell>();

  constructor(firstId: number, fromId: number) {
    this.first_id = firstId;
    this.from_id = fromId;
    this.next_id = firstId;
  }

  /** Restores a part from the output of {@link write}. */
  static from(fromId: number, bytes: Buffer): LedgerPart {
    const { first_id, last_ended_day, cells } = JSON.parse(bytes.toString()) as WrittenPart;
    const part = new LedgerPart(first_id, fromId);
    part.next_id = fromId + PART_IDS;
    part.last_ended_day = last_ended_day;
    for (const cell of cells) part.#cells.set(keyOf(cell), cell);
    return part;
  }

  write(): Buffer {
    const { first_id, last_ended_day } = this;
    const written: WrittenPart = { first_id, last_ended_day, cells: [...this.#cells.values()] };
    return Buffer.from(JSON.stringify(written));
  }

  get cells(): Iterable<Cell> {
    return this.#cells.values();
  }

  get is_complete(): boolean {
    return this.next_id === this.from_id + PART_IDS && this.#batch.length === 0;
  }

  isRead(lastId: number): boolean {
    return this.#batch.length === 0 && this.next_id > Math.min(lastId, this.from_id + PART_IDS - 1);
  }

  /**
   * Examines exchanges of the part.
   * @returns whether the whole part is examined; false if time ran out
   */
  read(source: ExchangeSource, lastId: number, doctor: CacheDoctor, hasTime: () => boolean): boolean {
    const end = Math.min(lastId + 1, this.from_id + PART_IDS);
    while (this.#batch.length > 0 || this.next_id < end) {
      if (this.#batch.length === 0) {
        const to = Math.min(this.next_id + BATCH, end);
        this.#batch = readBatch(source, this.next_id, to).reverse();
        this.next_id = to;
      }
      while (this.#batch.length > 0) {
        if (!hasTime()) return false;
        this.#examine(this.#batch.pop()!, doctor);
      }
    }
    return true;
  }

  #examine(record: ListedExchange, doctor: CacheDoctor): void {
    const ended = endDayOf(record);
    if (this.last_ended_day === '9999' || ended > this.last_ended_day) this.last_ended_day = ended;
    const look = doctor.examine({ record, follows: record.follows ?? null });
    if (look === null) return;
    const totals = totalsOf(look);
    const day = dayOf(Date.parse(look.started_at));
    this.#add({ day, agent: look.agent, cause: null, place: null, totals, runs: [] });
    const miss = missOf(look, record.run_id ?? '');
    if (miss === null) return;
    const { agent, cause, place } = miss;
    this.#add({ day, agent, cause, place, totals, runs: record.run_id === null ? [] : [record.run_id] });
  }

  #add(cell: Cell): void {
    let key = keyOf(cell);
    let found = this.#cells.get(key);
    if (found === undefined && this.#cells.size >= PART_CELLS) {
      const other = { ...cell, agent: OTHER_AGENTS, place: null };
      key = keyOf(other);
      found = this.#cells.get(key);
      if (found === undefined) this.#cells.set(key, { ...other, totals: { ...cell.totals } });
    } else if (found === undefined) this.#cells.set(key, { ...cell, totals: { ...cell.totals } });
    if (found === undefined) return;
    addTotals(found.totals, cell.totals);
    found.runs = nameRuns(found.runs, cell.runs);
  }
}

interface WrittenPart {
  first_id: number;
  last_ended_day: string;
  cells: Cell[];
}

function keyOf({ day, agent, cause, place }: Cell): string {
  return JSON.stringify([day, agent, cause, place]);
}

/** The exchanges of some ids, in the order of their arrival. */
function readBatch(source: ExchangeSource, fromId: number, toId: number): ListedExchange[] {
  const records: ListedExchange[] = [];
  for (const record of source.summaries({ from_id: Math.max(1, fromId) })) {
    if (record.id >= toId) break;
    records.push(record);
    // Stop here: to yield one more record, the generator would load the next block.
    if (record.id === toId - 1) break;
  }
  return records.sort((a, b) => arrivalOf(a) - arrivalOf(b));
}

function addTo(sums: Map<string, CacheTotals>, name: string, totals: CacheTotals): void {
  const sum = sums.get(name) ?? startTotals();
  sums.set(name, sum);
  addTotals(sum, totals);
}

function startOfPart(id: number): number {
  return id - ((id - 1) % PART_IDS);
}

/** Whether an exchange ended before a day; false if it cannot be read. */
function endedBefore(source: ExchangeSource, id: number, day: string): boolean {
  const record = source.exchange(id);
  return record !== undefined && endDayOf(record) < day;
}

function endDayOf({ started_at, duration_ms }: ListedExchange): string {
  return dayOf(Date.parse(started_at) + duration_ms);
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function countDays(first: string, last: string): number {
  return Math.round((Date.parse(last) - Date.parse(first)) / DAY_MS) + 1;
}
