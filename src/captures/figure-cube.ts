/**
 * Figures of captured traffic by model, agent, tool and so on. The exchanges are divided into parts by id. The cube
 * keeps sums for each part and adds them up for a query. It reads from the newest part on, only as far back as needed.
 * Pure except for its source; capture reader and command line.
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
import { FigureSum } from './figure-sum.ts';

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
  /** The sums of complete parts together, because most parts have the same values. */
  readonly #merged = new Map<string, Cell>();
  readonly #isMerged = new Set<CubePart>();

  constructor(prices: Prices) {
    this.#prices = prices;
  }

  /**
   * Answers a query, after reading what it needs.
   * @param hasTime called before each part that has to be read; the newest part is always read
   */
  ask(
    source: Pick<ExchangeSource, 'summaries'>,
    range: IdRange,
    question: FigureQuestion,
    hasTime: () => boolean,
  ): FigureReport {
    const is_whole = this.#follow(source, range, question.from_day, hasTime);
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
        // Sums cannot be subtracted.
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

  /** @returns whether every exchange from that day on is included */
  #follow(
    source: Pick<ExchangeSource, 'summaries'>,
    { first_id, last_id }: IdRange,
    fromDay: string,
    hasTime: () => boolean,
  ): boolean {
    const oldest = startOfPart(first_id);
    for (const from_id of this.#parts.keys()) if (from_id < oldest) this.#parts.delete(from_id);
    if (last_id < first_id) return true;
    const newest = startOfPart(last_id);
    for (let from_id = newest; from_id >= oldest; from_id -= PART_IDS) {
      let part = this.#parts.get(from_id);
      // Exchanges that were deleted since the part was read must not count.
      if (part === undefined || part.first_id < first_id) {
        part = new CubePart(Math.max(from_id, first_id), from_id);
        this.#parts.set(from_id, part);
      }
      if (!part.isRead(last_id)) {
        if (from_id !== newest && !hasTime()) {
          this.#parts.delete(from_id);
          return false;
        }
        part.read(source, last_id, this.#prices);
      }
      // Exchanges are in the order of their end, so the exchanges of earlier parts began before this day.
      if (part.last_ended_day < fromDay) return true;
    }
    return true;
  }
}

function startOfPart(id: number): number {
  return id - ((id - 1) % PART_IDS);
}

/** The sums of exchanges with consecutive ids. */
class CubePart {
  /** The first id that existed when it was read. */
  readonly first_id: number;
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

  read(source: Pick<ExchangeSource, 'summaries'>, lastId: number, prices: Prices): void {
    for (const exchange of source.summaries({ from_id: this.#nextId })) {
      if (exchange.id >= this.#endId) break;
      // An exchange that is not indexed yet has no model and no tokens; it is added later.
      if (exchange.not_indexed) {
        this.#nextId = exchange.id;
        return;
      }
      this.#cellOf(exchange).sum.addExchange(exchange, prices);
      this.last_ended_day = dayOf(Date.parse(exchange.started_at) + exchange.duration_ms);
      this.#nextId = exchange.id + 1;
      // Stop here: to yield one more record, the generator would load the next part.
      if (exchange.id === this.#endId - 1 || exchange.id === lastId) break;
    }
    // Continue behind the part's end, even if its last exchanges are damaged and were not yielded.
    this.#nextId = Math.max(this.#nextId, Math.min(this.#endId, lastId + 1));
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
 * An exchange counts for each tool that its answer called, for each of its tags, and for one value of other dimensions.
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
