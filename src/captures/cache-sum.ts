/**
 * Sums what turns lost because they missed the provider's cache, by cause, agent and place. Pure; capture reader and
 * command line. Bound: SUMMED_CAUSES groups; further groups count only in the totals.
 */

import { type CacheLook, MISS_CAUSES, type MissCause } from '../domain/cache-miss.ts';

const SUMMED_CAUSES = 1_024;
/** Runs named for each group. */
const NAMED_RUNS = 3;
const DAY_MS = 24 * 3_600_000;

/** The cost of one cause for one agent, at one place. */
interface CauseSum {
  cause: MissCause;
  words: string;
  agent: string;
  /** Where the prompts begin to differ; null for a cause without a place. */
  place: string | null;
  misses: number;
  lost_tokens: number;
  /** Dollars; null: no price is known. */
  cost_usd: number | null;
  /** Some runs with such misses, at most NAMED_RUNS. */
  runs: string[];
}

/** The sum over turns. */
export interface CacheReport {
  /** Examined turns. */
  turns: number;
  misses: number;
  lost_tokens: number;
  /** Dollars; null: no price is known. */
  cost_usd: number | null;
  /** Misses that `cost_usd` leaves out. */
  unpriced_misses: number;
  /** Whether some tokens are estimates. */
  is_estimate: boolean;
  /** Days from the first to the last of the turns. */
  days: number;
  /** Most expensive first. */
  causes: CauseSum[];
}

export class CacheSum {
  readonly #causes = new Map<string, CauseSum>();
  #turns = 0;
  #misses = 0;
  #lost = 0;
  #usd: number | null = null;
  #unpriced = 0;
  #isEstimate = false;
  #firstMs = Number.POSITIVE_INFINITY;
  #lastMs = Number.NEGATIVE_INFINITY;

  add(look: CacheLook, runId: string): void {
    const at = Date.parse(look.started_at);
    this.#turns += 1;
    this.#firstMs = Math.min(this.#firstMs, at);
    this.#lastMs = Math.max(this.#lastMs, at);
    if (look.verdict !== 'miss' || look.cause === null) return;
    this.#misses += 1;
    this.#lost += look.lost_tokens;
    this.#isEstimate ||= look.is_estimate;
    if (look.cost_usd === null) this.#unpriced += 1;
    else this.#usd = (this.#usd ?? 0) + look.cost_usd;
    this.#addCause(look, look.cause, runId);
  }

  #addCause(look: CacheLook, cause: MissCause, runId: string): void {
    // The numbers of messages differ from turn to turn; those of tools and system prompts do not.
    const place = look.difference?.place.replace(/^message .*/, 'a message') ?? null;
    const key = JSON.stringify([cause, look.agent, place]);
    let sum = this.#causes.get(key);
    if (sum === undefined) {
      if (this.#causes.size >= SUMMED_CAUSES) return;
      const none = { misses: 0, lost_tokens: 0, cost_usd: null, runs: [] };
      sum = { cause, words: MISS_CAUSES[cause], agent: look.agent, place, ...none };
      this.#causes.set(key, sum);
    }
    sum.misses += 1;
    sum.lost_tokens += look.lost_tokens;
    if (look.cost_usd !== null) sum.cost_usd = (sum.cost_usd ?? 0) + look.cost_usd;
    if (sum.runs.length < NAMED_RUNS && !sum.runs.includes(runId)) sum.runs.push(runId);
  }

  report(): CacheReport {
    const causes = [...this.#causes.values()].sort(
      (a, b) => (b.cost_usd ?? 0) - (a.cost_usd ?? 0) || b.lost_tokens - a.lost_tokens,
    );
    return {
      turns: this.#turns,
      misses: this.#misses,
      lost_tokens: this.#lost,
      cost_usd: this.#usd,
      unpriced_misses: this.#unpriced,
      is_estimate: this.#isEstimate,
      days: this.#turns === 0 ? 0 : (this.#lastMs - this.#firstMs) / DAY_MS,
      causes,
    };
  }
}
