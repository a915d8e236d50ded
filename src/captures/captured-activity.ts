/**
 * Recent traffic of the gateway: times and figures of the newest captured exchanges, and their sums over a time span.
 * Exchanges are read from the newest on, only as far back as needed. Pure except for its source; capture reader.
 *
 * Memory: about 65 bytes per exchange, for at most CAPTURE_ACTIVITY.exchanges; older exchanges are not examined.
 */
import type { CallWithoutRun, CapturedActivity } from '../domain/captured-run.ts';
import { isFailedCall } from '../domain/golden.ts';
import type { Prices } from '../domain/price.ts';
import { CAPTURE_ACTIVITY } from '../limits.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import { selectRank } from '../std/select-rank.ts';
import { priceExchange } from './exchange-cost.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';

/** Maximum number of failed calls without a run that are listed. */
const FAILED_CALLS_LISTED = 20;
/** Number of consecutive ids in one part. */
const PART_IDS = 1_024;

/** Figures that earlier readers stored. */
interface KeptFigures {
  figures(from_id: number): Buffer | undefined;
}

interface FiguresChanges {
  figures: { first_id: number; value: Buffer }[];
  figures_gone: number[];
}

/** The first and the last existing id. */
interface IdRange {
  first_id: number;
  last_id: number;
}

export class RecentExchanges {
  readonly #prices: Prices;
  readonly #kept: KeptFigures | null;
  readonly #max_parts: number;
  /** Parts by their first id. */
  readonly #parts = new Map<number, FiguresPart>();
  /** Complete parts that are not stored yet. */
  readonly #unkept = new Set<FiguresPart>();
  readonly #gone: number[] = [];
  #range: IdRange = { first_id: 1, last_id: 0 };
  /** The figures include all exchanges that ended at this time or later. */
  #whole_from_ms = Number.NEGATIVE_INFINITY;

  constructor({
    max = CAPTURE_ACTIVITY.exchanges,
    prices = {},
    kept = null,
  }: { max?: number; prices?: Prices; kept?: KeptFigures | null } = {}) {
    this.#max_parts = Math.max(1, Math.ceil(max / PART_IDS));
    this.#prices = prices;
    this.#kept = kept;
  }

  /**
   * Extends the figures forward to the newest exchange, and back to exchanges that began at `from_ms`, as far as the
   * time and the maximum number of parts allow.
   * @param hasTime called before each part that must be read; the newest part is always read
   */
  follow(
    source: Pick<ExchangeSource, 'summaries' | 'endedBefore'>,
    range: IdRange,
    from_ms: number,
    hasTime: () => boolean,
  ) {
    this.#range = range;
    this.#whole_from_ms = Number.POSITIVE_INFINITY;
    if (range.last_id < range.first_id) {
      this.#whole_from_ms = Number.NEGATIVE_INFINITY;
      return;
    }
    const newest = startOfPart(range.last_id);
    const oldest = Math.max(startOfPart(range.first_id), newest - (this.#max_parts - 1) * PART_IDS);
    for (let from_id = newest; from_id >= oldest; from_id -= PART_IDS) {
      const part = this.#find(from_id);
      if (part.next_id <= Math.min(range.last_id, from_id + PART_IDS - 1)) {
        if (from_id !== newest && !hasTime()) return;
        part.read(source, range.last_id, this.#prices);
        if (part.next_id === from_id + PART_IDS) this.#unkept.add(part);
      }
      // Exchanges are in the order of their end. So exchanges of earlier parts began before this time, unless the
      // source says otherwise.
      const ended_ms = Math.max(part.ended_ms, source.endedBefore?.(from_id) ?? Number.NEGATIVE_INFINITY);
      if (ended_ms < from_ms) {
        this.#whole_from_ms = ended_ms;
        return;
      }
    }
    if (oldest <= range.first_id) this.#whole_from_ms = Number.NEGATIVE_INFINITY;
    else this.#whole_from_ms = this.#parts.get(oldest)?.ended_ms ?? Number.POSITIVE_INFINITY;
    for (const from_id of this.#parts.keys())
      if (from_id < oldest) {
        this.#parts.delete(from_id);
        this.#gone.push(from_id);
      }
  }

  get hasChanges(): boolean {
    return this.#unkept.size > 0;
  }

  /** Changes since the last call, to be stored. */
  takeChanges(): FiguresChanges {
    const figures = [...this.#unkept].map((part) => ({ first_id: part.from_id, value: part.write() }));
    this.#unkept.clear();
    return { figures, figures_gone: this.#gone.splice(0) };
  }

  /**
   * Sums the exchanges that began at `from_ms` or later and before `to_ms`: in total, and in equal parts of the span.
   */
  sum(from_ms: number, to_ms: number): Omit<CapturedActivity, 'golden' | 'failed_without_run'> {
    const part_ms = (to_ms - from_ms) / CAPTURE_ACTIVITY.parts;
    const all = new Sum();
    const series = Array.from({ length: CAPTURE_ACTIVITY.parts }, () => new Sum());
    for (const figures of this.#parts.values()) {
      if (figures.ended_ms < from_ms || figures.from_id + PART_IDS <= this.#range.first_id) continue;
      const started = figures.columns.started_ms;
      for (let at = 0; at < figures.count; at++) {
        const began_ms = started[at]!;
        if (began_ms < from_ms || began_ms >= to_ms) continue;
        all.add(figures, at);
        series[Math.floor((began_ms - from_ms) / part_ms)]?.add(figures, at);
      }
    }
    return {
      from: new Date(from_ms).toISOString(),
      to: new Date(to_ms).toISOString(),
      is_whole: this.#whole_from_ms <= from_ms,
      ...all.tell(),
      errors_without_run: all.errors_without_run,
      series: series.map((sum, at) => ({
        at: new Date(from_ms + at * part_ms).toISOString(),
        ...sum.tell(),
      })),
    };
  }

  /**
   * Lists failed calls without a run that began at `from_ms` or later and before `to_ms`: the newest FAILED_CALLS_LISTED,
   * newest first. `sum` counts all of them.
   * @param hasTime called before each part that must be read again
   */
  listFailedWithoutRun(
    source: Pick<ExchangeSource, 'summaries'>,
    from_ms: number,
    to_ms: number,
    hasTime: () => boolean,
  ): CallWithoutRun[] {
    const calls: CallWithoutRun[] = [];
    const parts = [...this.#parts.values()].sort((a, b) => b.from_id - a.from_id);
    for (const part of parts) {
      if (part.ended_ms < from_ms || part.from_id + PART_IDS <= this.#range.first_id) continue;
      if (!part.failed_without_run_is_read && !hasTime()) break;
      for (const call of part.readFailedWithoutRun(source)) {
        const began_ms = Date.parse(call.started_at);
        if (began_ms >= from_ms && began_ms < to_ms) calls.push(call);
        if (calls.length === FAILED_CALLS_LISTED) return calls;
      }
    }
    return calls;
  }

  #find(from_id: number): FiguresPart {
    let part = this.#parts.get(from_id);
    if (part === undefined) {
      const kept = this.#kept?.figures(from_id);
      part = kept === undefined ? new FiguresPart(from_id) : FiguresPart.from(from_id, kept);
      this.#parts.set(from_id, part);
    }
    return part;
  }
}

function startOfPart(id: number): number {
  return id - ((id - 1) % PART_IDS);
}

const COLUMNS = [
  'started_ms',
  'latency_ms',
  /** NaN for an exchange without an answer. */
  'first_byte_ms',
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  /** NaN if the price or the tokens are unknown. */
  'cost_usd',
] as const;
const TURN = 1;
const FAILED = 2;
const BY_STUDENT = 4;
/** The price is a guess, or the tokens are estimated. */
const ESTIMATED = 8;
const WITHOUT_RUN = 16;
const FAILED_WITHOUT_RUN = FAILED | WITHOUT_RUN;

/** The figures of exchanges with consecutive ids. */
class FiguresPart {
  readonly from_id: number;
  /** Id of the next exchange to read. */
  next_id: number;
  count = 0;
  /** The latest end of an exchange of this part. */
  ended_ms = Number.NEGATIVE_INFINITY;
  readonly columns: Record<(typeof COLUMNS)[number], Float64Array>;
  readonly flags = new Uint8Array(PART_IDS);
  /** The result of {@link readFailedWithoutRun}; null: not read since the last change. */
  #failedWithoutRun: readonly CallWithoutRun[] | null = null;

  constructor(from_id: number) {
    this.from_id = from_id;
    this.next_id = from_id;
    this.columns = Object.fromEntries(
      COLUMNS.map((name) => [name, new Float64Array(PART_IDS)]),
    ) as FiguresPart['columns'];
  }

  /** Restores a part from the output of {@link write}. */
  static from(from_id: number, bytes: Buffer): FiguresPart {
    const part = new FiguresPart(from_id);
    part.next_id = from_id + PART_IDS;
    part.count = bytes.readUInt32LE(0);
    part.ended_ms = bytes.readDoubleLE(4);
    let at = 12;
    for (const column of [...COLUMNS.map((name) => part.columns[name]), part.flags]) {
      const length = part.count * column.BYTES_PER_ELEMENT;
      Buffer.from(column.buffer, 0, length).set(bytes.subarray(at, at + length));
      at += length;
    }
    return part;
  }

  write(): Buffer {
    const head = Buffer.allocUnsafe(12);
    head.writeUInt32LE(this.count, 0);
    head.writeDoubleLE(this.ended_ms, 4);
    const columns = [...COLUMNS.map((name) => this.columns[name]), this.flags];
    return Buffer.concat([
      head,
      ...columns.map((column) => Buffer.from(column.buffer, 0, this.count * column.BYTES_PER_ELEMENT)),
    ]);
  }

  /** Reads the exchanges from `next_id` on. */
  read(source: Pick<ExchangeSource, 'summaries'>, last_id: number, prices: Prices): void {
    const end_id = this.from_id + PART_IDS;
    for (const record of readUntil(source, this.next_id, Math.min(end_id - 1, last_id)))
      this.#add(record, prices);
    this.#failedWithoutRun = null;
    // Continue after the part's end, even if its last exchanges are damaged and were not yielded.
    this.next_id = Math.min(end_id, last_id + 1);
  }

  /** Whether {@link readFailedWithoutRun} reads no exchange. */
  get failed_without_run_is_read(): boolean {
    return this.#failedWithoutRun !== null || !this.#hasFailedWithoutRun();
  }

  /** The newest FAILED_CALLS_LISTED failed calls without a run, newest first. */
  readFailedWithoutRun(source: Pick<ExchangeSource, 'summaries'>): readonly CallWithoutRun[] {
    if (this.#failedWithoutRun === null) {
      const found: CallWithoutRun[] = [];
      if (this.#hasFailedWithoutRun())
        for (const record of readUntil(source, this.from_id, this.next_id - 1))
          if (record.run_id === null && isFailedCall(record)) found.push(describeCall(record));
      this.#failedWithoutRun = found.slice(-FAILED_CALLS_LISTED).reverse();
    }
    return this.#failedWithoutRun;
  }

  #hasFailedWithoutRun(): boolean {
    for (let at = 0; at < this.count; at++)
      if ((this.flags[at]! & FAILED_WITHOUT_RUN) === FAILED_WITHOUT_RUN) return true;
    return false;
  }

  #add(record: ListedExchange, prices: Prices): void {
    const usage = readFreshUsage(record.shape, record.usage);
    const { usd, basis, is_unknown } = priceExchange(record, prices);
    const at = this.count++;
    const { columns } = this;
    columns.started_ms[at] = Date.parse(record.started_at);
    columns.latency_ms[at] = record.duration_ms;
    columns.first_byte_ms[at] = record.first_byte_ms ?? Number.NaN;
    columns.input_tokens[at] = usage.input_tokens ?? 0;
    columns.output_tokens[at] = usage.output_tokens ?? 0;
    columns.cache_read_tokens[at] = usage.cache_read_tokens ?? 0;
    columns.cache_write_tokens[at] = usage.cache_write_tokens ?? 0;
    columns.cost_usd[at] = is_unknown ? Number.NaN : (usd ?? 0);
    this.flags[at] =
      (record.kind === 'turn' ? TURN : 0) |
      (isFailedCall(record) ? FAILED : 0) |
      (record.served_by === 'student' ? BY_STUDENT : 0) |
      (record.run_id === null ? WITHOUT_RUN : 0) |
      (basis === null || basis === 'told' ? 0 : ESTIMATED);
    this.ended_ms = Math.max(this.ended_ms, columns.started_ms[at]! + record.duration_ms);
  }
}

/** Yields the exchanges from one id to another, both included. */
function* readUntil(
  source: Pick<ExchangeSource, 'summaries'>,
  from_id: number,
  to_id: number,
): Generator<ListedExchange> {
  for (const record of source.summaries({ from_id })) {
    if (record.id > to_id) return;
    yield record;
    // Stop here: to yield one more record, the source would load the next part.
    if (record.id === to_id) return;
  }
}

function describeCall({
  id,
  started_at,
  method,
  path,
  provider,
  status,
  aborted,
}: ListedExchange): CallWithoutRun {
  return { exchange_id: id, started_at, method, path, provider, status, aborted };
}

/** Adds up exchanges from typed arrays, because a client waits while a month's exchanges are added up. */
class Sum {
  #exchanges = 0;
  #errors = 0;
  #errorsWithoutRun = 0;
  #studentTurns = 0;
  #inputTokens = 0;
  #outputTokens = 0;
  #cacheReadTokens = 0;
  #cacheWriteTokens = 0;
  #costUsd = 0;
  #unpricedTurns = 0;
  #estimatedTurns = 0;
  readonly #latencies = new Numbers();
  readonly #firstBytes = new Numbers();

  add({ columns, flags }: FiguresPart, at: number): void {
    const flag = flags[at]!;
    this.#exchanges += 1;
    if ((flag & TURN) !== 0) {
      this.#latencies.add(columns.latency_ms[at]!);
      const first_byte_ms = columns.first_byte_ms[at]!;
      if (!Number.isNaN(first_byte_ms)) this.#firstBytes.add(first_byte_ms);
    }
    if ((flag & FAILED) !== 0) this.#errors += 1;
    if ((flag & FAILED_WITHOUT_RUN) === FAILED_WITHOUT_RUN) this.#errorsWithoutRun += 1;
    if ((flag & BY_STUDENT) !== 0) this.#studentTurns += 1;
    if ((flag & ESTIMATED) !== 0) this.#estimatedTurns += 1;
    this.#inputTokens += columns.input_tokens[at]!;
    this.#outputTokens += columns.output_tokens[at]!;
    this.#cacheReadTokens += columns.cache_read_tokens[at]!;
    this.#cacheWriteTokens += columns.cache_write_tokens[at]!;
    const cost_usd = columns.cost_usd[at]!;
    if (Number.isNaN(cost_usd)) this.#unpricedTurns += 1;
    else this.#costUsd += cost_usd;
  }

  get errors_without_run(): number {
    return this.#errorsWithoutRun;
  }

  tell() {
    const [latencies, firstBytes] = [this.#latencies.values, this.#firstBytes.values];
    return {
      exchanges: this.#exchanges,
      turns: latencies.length,
      errors: this.#errors,
      student_turns: this.#studentTurns,
      input_tokens: this.#inputTokens,
      output_tokens: this.#outputTokens,
      cache_read_tokens: this.#cacheReadTokens,
      cache_write_tokens: this.#cacheWriteTokens,
      cost_usd: this.#costUsd === 0 && this.#unpricedTurns > 0 ? null : this.#costUsd,
      unpriced_turns: this.#unpricedTurns,
      estimated_turns: this.#estimatedTurns,
      latency_p50_ms: quantile(latencies, 0.5),
      latency_p95_ms: quantile(latencies, 0.95),
      first_byte_p50_ms: quantile(firstBytes, 0.5),
      first_byte_p95_ms: quantile(firstBytes, 0.95),
    };
  }
}

/** A growing list of numbers. */
class Numbers {
  #values = new Float64Array(64);
  #count = 0;

  add(value: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(this.#count * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#count++] = value;
  }

  /** The numbers, without a copy. */
  get values(): Float64Array {
    return this.#values.subarray(0, this.#count);
  }
}

/** A quantile by the nearest-rank method; null if there are no values. Changes the order of the values. */
function quantile(values: Float64Array, share: number): number | null {
  if (values.length === 0) return null;
  return selectRank(values, Math.max(0, Math.ceil(values.length * share) - 1));
}
