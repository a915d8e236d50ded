/**
 * The causes and the cost of a miss: a provider read less of a prompt from its cache than it could have.
 * This file has types, words and sums. Pure; any thread.
 */

import type { TokenUsage } from './exchange.ts';
import { costOfUsage, type FoundPrice } from './price.ts';

/** Each cause in words. A cause is named only if the bytes of both requests, or their times, prove it. */
export const MISS_CAUSES = {
  model_changed: 'Another model was asked: each model has its own cache',
  tools_reordered: 'The same tools are in another order',
  tools_changed: 'A tool was added or left out',
  tool_changed: 'The declaration of a tool changed',
  keys_reordered: 'The same JSON has its keys in another order',
  time_in_prompt: 'A date or time in the prompt changed',
  id_in_prompt: 'An id or a random value in the prompt changed',
  system_changed: 'The system prompt changed',
  setting_changed: 'A setting changed that affects cached messages',
  history_changed: 'An earlier message changed',
  history_shortened: 'Earlier messages were left out or summarized',
  expired: 'The cache entry had expired',
  may_have_expired: 'The prompt is the same; the cache entry may have expired',
  not_ready: 'The request was sent before the cache entry was ready',
  not_marked: 'The request has no cache point',
  too_far_back: 'The new part has more blocks than the provider searches',
  not_known: 'The prompt is the same: the provider lost the entry, or another machine answered',
} as const;

export type MissCause = keyof typeof MISS_CAUSES;

/** How a turn used the cache. */
export const CACHE_VERDICTS = ['hit', 'miss', 'first', 'too_short', 'not_told'] as const;
/**
 * `hit`: the turn read all that the cache held. `miss`: it read less. `first`: no earlier prompt has the same
 * beginning. `too_short`: providers do not cache prompts of this length. `not_told`: the answer reports no cache
 * counts.
 */
export type CacheVerdict = (typeof CACHE_VERDICTS)[number];

/** Where two prompts begin to differ. */
export interface PromptDifference {
  /** The place in words: `tool 3 (Read)`, `system`, `message 12, block 2`. */
  place: string;
  /** Number of characters at the beginning of the part that are the same in both prompts. */
  offset: number;
  /**
   * The text at the difference in the earlier prompt and in this one, with some characters before it; '' if absent.
   */
  before: string;
  after: string;
}

/** How one turn used the cache, and why it read less than it could have. */
export interface CacheLook {
  exchange_id: number;
  /** RFC 3339. */
  started_at: string;
  /** A readable name of the agent: its tools, or the first words of its system prompt; '' if it has neither. */
  agent: string;
  verdict: CacheVerdict;
  /**
   * The earlier exchange whose prompt this turn could have read from the cache; null: no earlier prompt has the same
   * beginning.
   */
  compared_with: number | null;
  /**
   * Tokens of the prompt of `compared_with` that the provider had cached; null: unknown. An estimate if `is_estimate`
   * is true.
   */
  expected_tokens: number | null;
  /** Tokens that the turn read from the cache; null: not reported. */
  read_tokens: number | null;
  /** Tokens that the turn could have read but did not; 0 except for a miss. */
  lost_tokens: number;
  is_estimate: boolean;
  cause: MissCause | null;
  /** Describes the cause, with the figures that prove it; '' without a cause. */
  words: string;
  difference: PromptDifference | null;
  /**
   * Additional dollars, compared with reading the lost tokens from the cache; null: no price is known, or nothing was
   * lost.
   */
  cost_usd: number | null;
}

/** What some turns lost. */
export interface CacheTotals {
  /** Examined turns. */
  turns: number;
  /** Examined turns whose answers do not say what was read from the cache. */
  untold_turns: number;
  misses: number;
  lost_tokens: number;
  /** Dollars; null: no price is known, or nothing was missed. */
  cost_usd: number | null;
  /** Misses that `cost_usd` leaves out. */
  unpriced_misses: number;
  /** Whether some tokens are estimates. */
  is_estimate: boolean;
}

/** What one agent lost by one cause, at one place. */
export interface CauseSum {
  cause: MissCause;
  words: string;
  agent: string;
  /** Where the prompts begin to differ; null for a cause without a place. */
  place: string | null;
  misses: number;
  lost_tokens: number;
  /** Dollars; null: no price is known. */
  cost_usd: number | null;
  /** Some of the runs in which these misses occurred. */
  runs: string[];
}

/** Which losses are asked for. */
export interface CacheQuestion {
  /** UTC days such as `2026-11-28`, both included. */
  from_day: string;
  to_day: string;
  /** Counts only the turns of this agent; null: the turns of all agents. */
  agent: string | null;
}

/** The losses of a period. */
export interface CachePeriod extends CacheTotals {
  from_day: string;
  to_day: string;
  /** false: older turns of the period are not examined yet; a later answer has them. */
  is_whole: boolean;
  /** Days from the first to the last day with examined turns, both included. */
  days: number;
  /** Most expensive first, at most CACHE_ROWS. */
  causes: CauseSum[];
  /** Most expensive first, at most CACHE_ROWS. Lists all agents, even if the question names one. */
  by_agent: (CacheTotals & { agent: string })[];
  /** Days with examined turns, in their order. */
  by_day: (CacheTotals & { day: string })[];
}

/** Maximum number of rows in each list of {@link CachePeriod}. */
export const CACHE_ROWS = 200;

/**
 * Computes the additional cost of a miss: the lost tokens were written to the cache again, or read at the full price.
 * @param usage of the turn; the input excludes cached tokens
 * @returns dollars; null if the tokens are unknown
 */
export function costOfMiss(usage: TokenUsage, lost_tokens: number, price: FoundPrice): number | null {
  const paid = costOfUsage(usage, price);
  const { input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens } = usage;
  const written = cache_write_tokens ?? 0;
  const fromWritten = Math.min(lost_tokens, written);
  const fromInput = Math.min(lost_tokens - fromWritten, input_tokens ?? 0);
  const hit = costOfUsage(
    {
      ...usage,
      input_tokens: input_tokens === null ? null : input_tokens - fromInput,
      cache_read_tokens: (cache_read_tokens ?? 0) + fromWritten + fromInput,
      cache_write_tokens: written - fromWritten,
      cache_write_1h_tokens:
        written === 0 ? 0 : ((cache_write_1h_tokens ?? 0) * (written - fromWritten)) / written,
    },
    price,
  );
  return paid === null || hit === null ? null : Math.max(0, paid - hit);
}
