/**
 * Figures of captured traffic by model, agent, tool and so on. The exchanges are divided into parts by id. The cube
 * keeps sums for each part, and adds them up for a query. It begins with the newest part, and goes back only as far as
 * needed. Pure except for its source; capture reader and command line.
 *
 * Memory: at most PART_CELLS sums of some hundred bytes for each part; values beyond that are summed without a name. A
 * month of uniform traffic takes some megabytes.
 */

import type { Prices } from '../domain/price.ts';
import {
  FIGURE_ROWS,
  type FigureDimension,
  type FigureQuestion,
  type FigureReport,
  type FigureRow,
} from '../domain/traffic-figures.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';
import { FigureSum, type SavedFigureSum } from './figure-sum.ts';

/** Number of consecutive ids in one part. */
const PART_IDS = 4_096;
const PART_CELLS = 1_024;

/** Maximum number of sums of complete parts together. Further parts are added up for each question. */
const MERGED_CELLS = 16_384;

/** The dimensions of which an exchange has exactly one value. */
const SINGLE = ['day', 'model', 'provider', 'agent', 'note', 'credential', 'served_by'] as const;
type SingleDimension = (typeof SINGLE)[number];

/** The first and the last existing id. */
interface IdRange {
  first_id: number;
  last_id: number;
}

/** Complete parts that an earlier reader stored. */
export interface KeptFigureParts {
  figureParts(): Iterable<{ first_id: number; value: Buffer }>;
}

interface FigureChanges {
  parts: { first_id: number; value: Buffer }[];
  parts_gone: number[];
}

/** Number of exchanges that are read between two checks of the time. */
const READ_AT_ONCE = 256;

/** Sums of exchanges that have the same values. */
interface Cell {
  values: Record<SingleDimension, string | null>;
  /** Tools that the exchanges' answers called, and tags of their requests, sorted. */
  tools: readonly string[];
  tags: readonly string[];
  sum: FigureSum;
}

export class FigureCube {
  readonly #prices: Prices;
  readonly #parts = new Map<number, CubePart>();
  /** Sums over all complete parts, by the values of the dimensions. Most parts have the same combinations of values. */
  readonly #merged = new Map<string, Cell>();
  readonly #isMerged = new Set<CubePart>();
  /** The stored parts that must still be loaded; null: they are loaded. */
  #kept: KeptFigureParts | null;
  /** Complete parts that are not stored yet. */
  readonly #unkept = new Set<CubePart>();
  #gone: number[] = [];

  constructor(prices: Prices, kept: KeptFigureParts | null = null) {
    this.#prices = prices;
    this.#kept = kept;
  }

  get hasChanges(): boolean {
    return this.#unkept.size > 0 || this.#gone.length > 0;
  }

  /** Changes since the last call, to be stored. */
  takeChanges(): FigureChanges {
    const parts = [...this.#unkept].map((part) => ({ first_id: part.from_id, value: part.write() }));
    this.#unkept.clear();
    const parts_gone = this.#gone;
    this.#gone = [];
    return { parts, parts_gone };
  }

  /** Marks all complete parts as not stored, because the store was emptied. */
  storeAgain(): void {
    this.#load();
    this.#gone = [];
    for (const part of this.#parts.values()) if (part.is_complete) this.#unkept.add(part);
  }

  /** Reads the stored parts at the first question, not in the constructor, because a damaged store throws. */
  #load(): void {
    for (const { first_id, value } of this.#kept?.figureParts() ?? [])
      this.#parts.set(first_id, CubePart.from(first_id, value));
    this.#kept = null;
  }

  #drop(part: CubePart): void {
    this.#parts.delete(part.from_id);
    this.#unkept.delete(part);
    this.#gone.push(part.from_id);
  }

  /**
   * Answers a query, after reading what it needs.
   * @param hasTime called before some exchanges are read; the newest part is always read
   */
  ask(
    source: Pick<ExchangeSource, 'summaries' | 'endedBefore'>,
    range: IdRange,
    question: FigureQuestion,
    hasTime: () => boolean,
  ): FigureReport {
    const is_whole = this.follow(source, range, question.from_day, hasTime);
    const total = new FigureSum();
    const rows = new Map<string | null, FigureSum>();
    this.#mergeComplete();
    for (const cell of this.#cells()) {
      if (!fits(cell, question)) continue;
      total.add(cell.sum);
      for (const name of namesOf(cell, question.by)) {
        const sum = rows.get(name) ?? new FigureSum();
        rows.set(name, sum);
        sum.add(cell.sum);
      }
    }
    const { by, from_day, to_day } = question;
    const figures = { by, from_day, to_day, is_whole, scanned: total.exchanges, total: total.tell() };
    return { ...figures, ...orderRows(by, rows) };
  }

  *#cells(): Generator<Cell> {
    yield* this.#merged.values();
    for (const part of this.#parts.values()) if (!this.#isMerged.has(part)) yield* part.cells;
  }

  #mergeComplete(): void {
    for (const part of this.#isMerged)
      if (this.#parts.get(part.from_id) !== part) {
        // The merged sums are made again, because sums cannot be subtracted.
        this.#merged.clear();
        this.#isMerged.clear();
        break;
      }
    for (const part of this.#parts.values()) {
      if (!part.is_complete || this.#isMerged.has(part)) continue;
      if (this.#merged.size + part.size > MERGED_CELLS) return;
      this.#isMerged.add(part);
      for (const [key, { sum, ...values }] of part.entries) {
        const merged = this.#merged.get(key) ?? { ...values, sum: new FigureSum() };
        this.#merged.set(key, merged);
        merged.sum.add(sum);
      }
    }
  }

  /**
   * Reads exchanges, from the newest part on, back to a day.
   * @returns whether every exchange from that day on is included, except those that are not indexed yet
   */
  follow(
    source: Pick<ExchangeSource, 'summaries' | 'endedBefore'>,
    { first_id, last_id }: IdRange,
    fromDay: string,
    hasTime: () => boolean,
  ): boolean {
    this.#load();
    const oldest = startOfPart(first_id);
    for (const part of this.#parts.values()) if (part.from_id < oldest) this.#drop(part);
    if (last_id < first_id) return true;
    const newest = startOfPart(last_id);
    for (let from_id = newest; from_id >= oldest; from_id -= PART_IDS) {
      let part = this.#parts.get(from_id);
      // Exchanges that were deleted since the part was read must not count.
      if (part !== undefined && part.first_id < first_id) {
        this.#drop(part);
        part = undefined;
      }
      if (part === undefined) {
        part = new CubePart(Math.max(from_id, first_id), from_id);
        this.#parts.set(from_id, part);
      }
      if (!part.isRead(last_id)) {
        if (!part.read(source, last_id, this.#prices, from_id === newest ? ALWAYS : hasTime)) return false;
        if (part.is_complete) this.#unkept.add(part);
      }
      // Exchanges are in the order of their end. So exchanges of earlier parts began before this day, unless the source
      // says otherwise.
      if (part.last_ended_day < fromDay && endedDay(source, from_id) < fromDay) return true;
    }
    return true;
  }
}

const ALWAYS = (): boolean => true;

/** The UTC day on which the last exchange before this id ended, if ids are not in the order of time; otherwise ''. */
export function endedDay(source: Pick<ExchangeSource, 'endedBefore'>, id: number): string {
  const ms = source.endedBefore?.(id) ?? Number.NEGATIVE_INFINITY;
  return ms === Number.NEGATIVE_INFINITY ? '' : dayOf(ms);
}

function startOfPart(id: number): number {
  return id - ((id - 1) % PART_IDS);
}

/** The sums of exchanges with consecutive ids. */
class CubePart {
  /** The first id of the part that existed when the part was read. */
  readonly first_id: number;
  /** The first id that the part can contain. */
  readonly from_id: number;
  readonly #endId: number;
  /** Id of the next exchange to read. */
  #nextId: number;
  /** UTC day on which the last exchange that was read ended; '9999' before the first. */
  last_ended_day = '9999';
  readonly #cells = new Map<string, Cell>();

  constructor(firstId: number, fromId: number) {
    this.first_id = firstId;
    this.from_id = fromId;
    this.#nextId = firstId;
    this.#endId = fromId + PART_IDS;
  }

  get is_complete(): boolean {
    return this.#nextId >= this.#endId;
  }

  get size(): number {
    return this.#cells.size;
  }

  get entries(): Iterable<[string, Cell]> {
    return this.#cells;
  }

  get cells(): Iterable<Cell> {
    return this.#cells.values();
  }

  isRead(lastId: number): boolean {
    return this.#nextId > Math.min(lastId, this.#endId - 1);
  }

  /**
   * Reads exchanges of the part.
   * @returns false if there was no time to read all of it
   */
  read(
    source: Pick<ExchangeSource, 'summaries'>,
    lastId: number,
    prices: Prices,
    hasTime: () => boolean,
  ): boolean {
    if (!hasTime()) return false;
    let read = 0;
    for (const exchange of source.summaries({ from_id: this.#nextId })) {
      if (exchange.id >= this.#endId) break;
      if (++read % READ_AT_ONCE === 0 && !hasTime()) return false;
      // An exchange that is not indexed yet has no model and no tokens; it is added later.
      if (exchange.not_indexed) {
        this.#nextId = exchange.id;
        return true;
      }
      this.#cellOf(exchange).sum.addExchange(exchange, prices);
      this.last_ended_day = dayOf(Date.parse(exchange.started_at) + exchange.duration_ms);
      this.#nextId = exchange.id + 1;
      // Stop here: to yield one more record, the generator would load the next part.
      if (exchange.id === this.#endId - 1 || exchange.id === lastId) break;
    }
    // Continue after the part's end, even if its last exchanges are damaged and were not yielded.
    this.#nextId = Math.max(this.#nextId, Math.min(this.#endId, lastId + 1));
    return true;
  }

  /** Restores a complete part from the output of {@link write}. */
  static from(fromId: number, bytes: Buffer): CubePart {
    const { first_id, last_ended_day, cells } = JSON.parse(bytes.toString()) as WrittenPart;
    const part = new CubePart(first_id, fromId);
    part.#nextId = part.#endId;
    part.last_ended_day = last_ended_day;
    for (const [key, values, tools, tags, sum] of cells)
      part.#cells.set(key, { values, tools, tags, sum: FigureSum.restore(sum) });
    return part;
  }

  write(): Buffer {
    const cells = [...this.#cells].map(
      ([key, { values, tools, tags, sum }]) => [key, values, tools, tags, sum.save()] as const,
    );
    const written: WrittenPart = { first_id: this.first_id, last_ended_day: this.last_ended_day, cells };
    return Buffer.from(JSON.stringify(written));
  }

  #cellOf(exchange: ListedExchange): Cell {
    const values = readValues(exchange);
    const tools = [...(exchange.tools ?? [])].sort();
    const tags = [...(exchange.tags ?? [])].sort();
    const key = JSON.stringify([...SINGLE.map((name) => values[name]), tools, tags]);
    const found = this.#cells.get(key);
    if (found !== undefined) return found;
    const cell = { values, tools, tags, sum: new FigureSum() };
    if (this.#cells.size < PART_CELLS) {
      this.#cells.set(key, cell);
      return cell;
    }
    const rest = `${values.day}`;
    const unnamed = this.#cells.get(rest) ?? {
      values: {
        ...readValues(exchange),
        model: null,
        provider: null,
        agent: null,
        note: null,
        credential: null,
      },
      tools: [],
      tags: [],
      sum: new FigureSum(),
    };
    this.#cells.set(rest, unnamed);
    return unnamed;
  }
}

interface WrittenPart {
  first_id: number;
  last_ended_day: string;
  cells: readonly (readonly [
    key: string,
    values: Cell['values'],
    tools: readonly string[],
    tags: readonly string[],
    sum: SavedFigureSum,
  ])[];
}

function readValues(exchange: ListedExchange): Cell['values'] {
  return {
    day: dayOf(Date.parse(exchange.started_at)),
    model: exchange.model,
    provider: exchange.provider,
    agent: exchange.client ?? null,
    note: exchange.note === '' ? null : exchange.note,
    credential: exchange.credential ?? null,
    served_by: exchange.served_by,
  };
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function fits(cell: Cell, { from_day, to_day, where }: FigureQuestion): boolean {
  const { day } = cell.values;
  if (day === null || day < from_day || day > to_day) return false;
  for (const [name, value] of Object.entries(where)) {
    if (!valuesIn(cell, name as FigureDimension).includes(value)) return false;
  }
  return true;
}

/**
 * The values under which a cell counts: each tool that the answers called, each tag, or the single value of another
 * dimension.
 */
function namesOf(cell: Cell, by: FigureDimension): readonly (string | null)[] {
  const values = valuesIn(cell, by);
  return values.length === 0 ? [null] : values;
}

function valuesIn({ values, tools, tags }: Cell, by: FigureDimension): readonly (string | null)[] {
  if (by === 'tool') return tools;
  return by === 'tag' ? tags : [values[by]];
}

function orderRows(
  by: FigureDimension,
  sums: ReadonlyMap<string | null, FigureSum>,
): Pick<FigureReport, 'rows' | 'others'> {
  const rows: FigureRow[] = [...sums].map(([name, sum]) => ({ name, ...sum.tell() }));
  if (by === 'day') rows.sort((a, b) => ((a.name ?? '') < (b.name ?? '') ? -1 : 1));
  else
    rows.sort(
      (a, b) => (b.cost_usd ?? 0) - (a.cost_usd ?? 0) || b.turns - a.turns || b.exchanges - a.exchanges,
    );
  if (rows.length <= FIGURE_ROWS) return { rows, others: null };
  const others = new FigureSum();
  const kept = by === 'day' ? rows.slice(-FIGURE_ROWS) : rows.slice(0, FIGURE_ROWS);
  const names = new Set(kept.map(({ name }) => name));
  for (const [name, sum] of sums) if (!names.has(name)) others.add(sum);
  return { rows: kept, others: others.tell() };
}
