/**
 * What passed the gateway lately: the newest captured exchanges, as far as their times and figures go, and what they add up
 * to over a span. Pure; capture reader.
 *
 * Memory: some 50 bytes an exchange, at most CAPTURE_ACTIVITY_EXCHANGES of them; older ones are forgotten.
 */
import type { CapturedActivity } from '../domain/captured-run.ts';
import { hasFailed } from '../domain/golden.ts';
import type { Prices } from '../domain/price.ts';
import { CAPTURE_ACTIVITY } from '../limits.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import { costOfExchange } from './exchange-cost.ts';
import type { ListedExchange } from './inspect.ts';

/** One exchange, as far as it counts here. */
interface Passed {
  started_ms: number;
  latency_ms: number;
  first_byte_ms: number | null;
  is_turn: boolean;
  failed: boolean;
  by_student: boolean;
  input_tokens: number;
  output_tokens: number;
  /** Not a number: its price or tokens are not known. */
  cost_usd: number;
}

export class RecentExchanges {
  readonly #max: number;
  readonly #prices: Prices;
  readonly #passed: Passed[] = [];
  /** Where the next one goes once the list is full. */
  #next = 0;

  constructor({ max = CAPTURE_ACTIVITY.exchanges, prices = {} }: { max?: number; prices?: Prices } = {}) {
    this.#max = max;
    this.#prices = prices;
  }

  add(record: ListedExchange): void {
    const usage = readFreshUsage(record.shape, record.usage);
    const cost = costOfExchange(record, this.#prices);
    const passed: Passed = {
      started_ms: Date.parse(record.started_at),
      latency_ms: record.duration_ms,
      first_byte_ms: record.first_byte_ms,
      is_turn: record.kind === 'turn',
      failed: hasFailed(record),
      by_student: record.served_by === 'student',
      input_tokens: usage.input_tokens ?? 0,
      output_tokens: usage.output_tokens ?? 0,
      cost_usd: cost === 'unknown' ? Number.NaN : (cost ?? 0),
    };
    if (this.#passed.length < this.#max) this.#passed.push(passed);
    else this.#passed[this.#next] = passed;
    this.#next = (this.#next + 1) % this.#max;
  }

  /** What began from `from_ms` on and before `to_ms`, in all and in equal parts of that span. */
  sum(from_ms: number, to_ms: number): Omit<CapturedActivity, 'golden'> {
    const within = this.#passed.filter(({ started_ms }) => started_ms >= from_ms && started_ms < to_ms);
    const part_ms = (to_ms - from_ms) / CAPTURE_ACTIVITY.parts;
    const parts: Passed[][] = Array.from({ length: CAPTURE_ACTIVITY.parts }, () => []);
    for (const one of within) parts[Math.floor((one.started_ms - from_ms) / part_ms)]?.push(one);
    const oldest = this.#passed.reduce((least, one) => Math.min(least, one.started_ms), to_ms);
    return {
      from: new Date(from_ms).toISOString(),
      to: new Date(to_ms).toISOString(),
      is_whole: this.#passed.length < this.#max || oldest <= from_ms,
      ...addUp(within),
      series: parts.map((part, at) => ({
        at: new Date(from_ms + at * part_ms).toISOString(),
        ...addUp(part),
      })),
    };
  }
}

/** One pass, and numbers in typed arrays: a month's exchanges are added up while somebody waits. */
function addUp(passed: readonly Passed[]) {
  const latencies = new Float64Array(passed.length);
  const first = new Float64Array(passed.length);
  let answered = 0;
  const sum = {
    exchanges: passed.length,
    turns: 0,
    errors: 0,
    student_turns: 0,
    input_tokens: 0,
    output_tokens: 0,
  };
  let cost_usd = 0;
  let unpriced_turns = 0;
  for (const one of passed) {
    if (one.is_turn) {
      latencies[sum.turns++] = one.latency_ms;
      if (one.first_byte_ms !== null) first[answered++] = one.first_byte_ms;
    }
    if (one.failed) sum.errors += 1;
    if (one.by_student) sum.student_turns += 1;
    sum.input_tokens += one.input_tokens;
    sum.output_tokens += one.output_tokens;
    if (Number.isNaN(one.cost_usd)) unpriced_turns += 1;
    else cost_usd += one.cost_usd;
  }
  const ascending = latencies.subarray(0, sum.turns).sort();
  const firstAscending = first.subarray(0, answered).sort();
  return {
    ...sum,
    cost_usd: cost_usd === 0 && unpriced_turns > 0 ? null : cost_usd,
    unpriced_turns,
    latency_p50_ms: quantile(ascending, 0.5),
    latency_p95_ms: quantile(ascending, 0.95),
    first_byte_p50_ms: quantile(firstAscending, 0.5),
    first_byte_p95_ms: quantile(firstAscending, 0.95),
  };
}

/** The nearest rank of ascending values; null of none. */
function quantile(ascending: Float64Array, share: number): number | null {
  return ascending[Math.max(0, Math.ceil(ascending.length * share) - 1)] ?? null;
}
