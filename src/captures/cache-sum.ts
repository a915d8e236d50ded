/**
 * Sums what turns lost because they missed the provider's cache: in total, and by cause, agent and place. Pure; capture
 * reader and command line. Bound: SUMMED_CAUSES groups; further groups count only in the totals.
 */

import {
  type CacheLook,
  type CacheTotals,
  type CauseSum,
  MISS_CAUSES,
  type MissCause,
} from '../domain/cache-miss.ts';

const SUMMED_CAUSES = 1_024;
/** Maximum number of runs named for each group. */
const NAMED_RUNS = 3;

/** The sum over some turns. */
export interface CacheReport extends CacheTotals {
  /** The misses by cause, the most expensive first. */
  causes: CauseSum[];
}

/** The misses of one agent with one cause at one place. */
interface SummedMisses {
  cause: MissCause;
  agent: string;
  place: string | null;
  misses: number;
  lost_tokens: number;
  cost_usd: number | null;
  runs: readonly string[];
}

/** Totals without any turns, to which turns can be added. */
export function startTotals(): CacheTotals {
  return {
    turns: 0,
    untold_turns: 0,
    misses: 0,
    lost_tokens: 0,
    cost_usd: null,
    unpriced_misses: 0,
    is_estimate: false,
  };
}

export function addTotals(totals: CacheTotals, more: CacheTotals): void {
  totals.turns += more.turns;
  totals.untold_turns += more.untold_turns;
  totals.misses += more.misses;
  totals.lost_tokens += more.lost_tokens;
  totals.cost_usd = addDollars(totals.cost_usd, more.cost_usd);
  totals.unpriced_misses += more.unpriced_misses;
  totals.is_estimate ||= more.is_estimate;
}

/** Makes the totals that consist of one turn. */
export function totalsOf({ verdict, lost_tokens, cost_usd, is_estimate }: CacheLook): CacheTotals {
  const untold_turns = verdict === 'not_told' ? 1 : 0;
  if (verdict !== 'miss') return { ...startTotals(), turns: 1, untold_turns };
  const unpriced_misses = cost_usd === null ? 1 : 0;
  return { turns: 1, untold_turns, misses: 1, lost_tokens, cost_usd, unpriced_misses, is_estimate };
}

/** The group to which a miss belongs; null for a turn that missed nothing. */
export function missOf(look: CacheLook, runId: string): SummedMisses | null {
  const { verdict, cause, agent, difference, lost_tokens, cost_usd } = look;
  if (verdict !== 'miss' || cause === null) return null;
  // Message numbers and the order of tools differ from turn to turn, so they are left out of the place.
  const isOrder = cause === 'tools_reordered';
  const place = isOrder ? null : (difference?.place.replace(/^message .*/, 'a message') ?? null);
  return { cause, agent, place, misses: 1, lost_tokens, cost_usd, runs: [runId] };
}

/** Misses by cause, agent and place. */
export class CauseSums {
  readonly #causes = new Map<string, CauseSum>();

  add({ cause, agent, place, misses, lost_tokens, cost_usd, runs }: SummedMisses): void {
    const key = JSON.stringify([cause, agent, place]);
    let sum = this.#causes.get(key);
    if (sum === undefined) {
      if (this.#causes.size >= SUMMED_CAUSES) return;
      const none = { misses: 0, lost_tokens: 0, cost_usd: null, runs: [] };
      sum = { cause, words: MISS_CAUSES[cause], agent, place, ...none };
      this.#causes.set(key, sum);
    }
    sum.misses += misses;
    sum.lost_tokens += lost_tokens;
    sum.cost_usd = addDollars(sum.cost_usd, cost_usd);
    sum.runs = nameRuns(sum.runs, runs);
  }

  /** Lists the causes, the most expensive first. */
  list(): CauseSum[] {
    return [...this.#causes.values()].sort(
      (a, b) => (b.cost_usd ?? 0) - (a.cost_usd ?? 0) || b.lost_tokens - a.lost_tokens,
    );
  }
}

/** Sums turns, in total and by cause. */
export class CacheSum {
  readonly #totals = startTotals();
  readonly #causes = new CauseSums();

  add(look: CacheLook, runId: string): void {
    addTotals(this.#totals, totalsOf(look));
    const miss = missOf(look, runId);
    if (miss !== null) this.#causes.add(miss);
  }

  report(): CacheReport {
    return { ...this.#totals, causes: this.#causes.list() };
  }
}

/** Adds two costs in dollars. An unknown cost (null) counts as 0; null: neither is known. */
function addDollars(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : a + b;
}

/** The first few runs of two lists, each once. */
export function nameRuns(runs: readonly string[], more: readonly string[]): string[] {
  return [...new Set([...runs, ...more])].slice(0, NAMED_RUNS);
}
