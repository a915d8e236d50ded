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

function addUp(passed: readonly Passed[]) {
  const turns = passed.filter(({ is_turn }) => is_turn);
  const latencies = turns.map(({ latency_ms }) => latency_ms).sort((a, b) => a - b);
  const first = turns.flatMap(({ first_byte_ms }) => first_byte_ms ?? []).sort((a, b) => a - b);
  const charged = passed.flatMap(({ cost_usd }) => (Number.isNaN(cost_usd) ? [] : cost_usd));
  const unpriced = passed.length - charged.length;
  const cost_usd = charged.reduce((total, cost) => total + cost, 0);
  const sum = (of: (one: Passed) => number) => passed.reduce((total, one) => total + of(one), 0);
  return {
    exchanges: passed.length,
    turns: turns.length,
    errors: sum(({ failed }) => Number(failed)),
    student_turns: sum(({ by_student }) => Number(by_student)),
    input_tokens: sum(({ input_tokens }) => input_tokens),
    output_tokens: sum(({ output_tokens }) => output_tokens),
    cost_usd: cost_usd === 0 && unpriced > 0 ? null : cost_usd,
    unpriced_turns: unpriced,
    latency_p50_ms: quantile(latencies, 0.5),
    latency_p95_ms: quantile(latencies, 0.95),
    first_byte_p50_ms: quantile(first, 0.5),
    first_byte_p95_ms: quantile(first, 0.95),
  };
}

/** The nearest rank of ascending values; null of none. */
function quantile(ascending: readonly number[], share: number): number | null {
  return ascending[Math.max(0, Math.ceil(ascending.length * share) - 1)] ?? null;
}
