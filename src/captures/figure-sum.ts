/**
 * Sums the figures of exchanges. Sums can also be added to each other. Pure; capture reader and command line.
 */

import { isFailedCall } from '../domain/golden.ts';
import type { Prices } from '../domain/price.ts';
import { LATENCY_PRECISION, type TrafficFigures } from '../domain/traffic-figures.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import { priceExchange } from './exchange-cost.ts';
import type { ListedExchange } from './exchange-source.ts';

/**
 * Ratio between the upper and the lower limit of a latency step. Latencies are counted by step; a percentile is the
 * middle of its step.
 */
const STEP = (1 + LATENCY_PRECISION) ** 2;
const LOG_STEP = Math.log(STEP);

export type SavedFigureSum = readonly [
  counts: readonly [
    exchanges: number,
    turns: number,
    errors: number,
    student_turns: number,
    input: number,
    output: number,
    cache_read: number,
    cache_write: number,
    cost_usd: number,
    priced_turns: number,
    unpriced_turns: number,
    estimated_turns: number,
  ],
  latencies: readonly (readonly [step: number, count: number])[],
];

/** Sums of some exchanges, and how often each latency occurred. */
export class FigureSum {
  #exchanges = 0;
  #turns = 0;
  #errors = 0;
  #studentTurns = 0;
  #inputTokens = 0;
  #outputTokens = 0;
  #cacheReadTokens = 0;
  #cacheWriteTokens = 0;
  #costUsd = 0;
  #pricedTurns = 0;
  #unpricedTurns = 0;
  #estimatedTurns = 0;
  readonly #latencies = new Map<number, number>();

  /** Restores the output of {@link save}. */
  static restore([counts, latencies]: SavedFigureSum): FigureSum {
    const sum = new FigureSum();
    [sum.#exchanges, sum.#turns, sum.#errors, sum.#studentTurns] = counts;
    [, , , , sum.#inputTokens, sum.#outputTokens, sum.#cacheReadTokens, sum.#cacheWriteTokens] = counts;
    [, , , , , , , , sum.#costUsd, sum.#pricedTurns, sum.#unpricedTurns, sum.#estimatedTurns] = counts;
    for (const [step, count] of latencies) sum.#latencies.set(step, count);
    return sum;
  }

  /** The sums as plain data. */
  save(): SavedFigureSum {
    return [
      [
        this.#exchanges,
        this.#turns,
        this.#errors,
        this.#studentTurns,
        this.#inputTokens,
        this.#outputTokens,
        this.#cacheReadTokens,
        this.#cacheWriteTokens,
        this.#costUsd,
        this.#pricedTurns,
        this.#unpricedTurns,
        this.#estimatedTurns,
      ],
      [...this.#latencies],
    ];
  }

  get exchanges(): number {
    return this.#exchanges;
  }

  addExchange(exchange: ListedExchange, prices: Prices): void {
    const usage = readFreshUsage(exchange.shape, exchange.usage);
    const { usd, basis, is_unknown } = priceExchange(exchange, prices);
    this.#exchanges += 1;
    // A run's row also counts failed results of tools.
    if (isFailedCall(exchange)) this.#errors += 1;
    this.#inputTokens += usage.input_tokens ?? 0;
    this.#outputTokens += usage.output_tokens ?? 0;
    this.#cacheReadTokens += usage.cache_read_tokens ?? 0;
    this.#cacheWriteTokens += usage.cache_write_tokens ?? 0;
    if (is_unknown) this.#unpricedTurns += 1;
    if (usd !== null) {
      this.#costUsd += usd;
      this.#pricedTurns += 1;
    }
    if (basis !== null && basis !== 'told') this.#estimatedTurns += 1;
    if (exchange.kind !== 'turn') return;
    this.#turns += 1;
    if (exchange.served_by === 'student') this.#studentTurns += 1;
    const step = Math.round(Math.log(Math.max(exchange.duration_ms, 0.001)) / LOG_STEP);
    this.#latencies.set(step, (this.#latencies.get(step) ?? 0) + 1);
  }

  add(other: FigureSum): void {
    this.#exchanges += other.#exchanges;
    this.#turns += other.#turns;
    this.#errors += other.#errors;
    this.#studentTurns += other.#studentTurns;
    this.#inputTokens += other.#inputTokens;
    this.#outputTokens += other.#outputTokens;
    this.#cacheReadTokens += other.#cacheReadTokens;
    this.#cacheWriteTokens += other.#cacheWriteTokens;
    this.#costUsd += other.#costUsd;
    this.#pricedTurns += other.#pricedTurns;
    this.#unpricedTurns += other.#unpricedTurns;
    this.#estimatedTurns += other.#estimatedTurns;
    for (const [step, count] of other.#latencies)
      this.#latencies.set(step, (this.#latencies.get(step) ?? 0) + count);
  }

  tell(): TrafficFigures {
    const input = this.#inputTokens + this.#cacheReadTokens + this.#cacheWriteTokens;
    return {
      exchanges: this.#exchanges,
      turns: this.#turns,
      errors: this.#errors,
      student_turns: this.#studentTurns,
      input_tokens: this.#inputTokens,
      output_tokens: this.#outputTokens,
      cache_read_tokens: this.#cacheReadTokens,
      cache_write_tokens: this.#cacheWriteTokens,
      cache_share: input === 0 ? null : this.#cacheReadTokens / input,
      cost_usd: this.#pricedTurns === 0 && this.#unpricedTurns > 0 ? null : this.#costUsd,
      unpriced_turns: this.#unpricedTurns,
      estimated_turns: this.#estimatedTurns,
      latency_p50_ms: this.#quantile(0.5),
      latency_p95_ms: this.#quantile(0.95),
    };
  }

  #quantile(share: number): number | null {
    let left = Math.ceil(this.#turns * share);
    if (left === 0) return null;
    for (const step of [...this.#latencies.keys()].sort((a, b) => a - b)) {
      left -= this.#latencies.get(step)!;
      if (left <= 0) return Math.exp(step * LOG_STEP);
    }
    return null;
  }
}
