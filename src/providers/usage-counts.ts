/** Rules for token counts that several wires share. Pure; runs where stored copies are read. */

import type { TokenUsage } from '../domain/exchange.ts';
import { asCount } from './json-reading.ts';

/**
 * Chooses between the count that a stream sends now and the count that it sent before; null if neither is a count.
 * Later counts are cumulative and replace earlier ones. A zero after another count comes from a server that fills the
 * field without knowing it.
 */
export function laterCount(told: unknown, before: number | null): number | null {
  const count = asCount(told);
  return count === null || (count === 0 && before !== null) ? before : count;
}

/** The counts of an answer. */
interface ToldCounts {
  input: number;
  output: number;
  reasoning: number;
  /** Total of all; null when not reported. */
  total: number | null;
}

/**
 * Computes the tokens of the output, including reasoning. Some servers include the reasoning in `output`, others (xAI)
 * count it separately. The total shows which; without a total, `reasoning` was counted separately if it exceeds
 * `output`.
 */
export function outputWithReasoning({ input, output, reasoning, total }: ToldCounts): number {
  const isApart = total === null ? reasoning > output : reasoning > 0 && total === input + output + reasoning;
  return isApart ? output + reasoning : output;
}

/** Converts counts whose input includes the cache to counts whose input excludes it. */
export function leaveOutCache(usage: TokenUsage): TokenUsage {
  const { input_tokens: input, cache_read_tokens: read, cache_write_tokens: written } = usage;
  if (input === null) return usage;
  return { ...usage, input_tokens: Math.max(0, input - (read ?? 0) - (written ?? 0)) };
}
