/** Counts of tokens as they are told by each wire format, brought to one meaning. Pure; any thread. */
import type { ApiShape, TokenUsage } from '../domain/exchange.ts';

/** Wire formats whose input includes what a cache held (README.md, What the numbers mean). */
const INCLUDES_CACHE: ReadonlySet<ApiShape | null> = new Set([
  'chat_completions',
  'completion',
  'responses',
  'gemini',
]);

/** @returns a turn's counts, its input without what a cache held */
export function readFreshUsage(shape: ApiShape | null, usage: TokenUsage): TokenUsage {
  return INCLUDES_CACHE.has(shape) ? leaveOutCache(usage) : usage;
}

/** Counts whose input includes the cache, as counts whose input leaves it out. */
export function leaveOutCache(usage: TokenUsage): TokenUsage {
  const { input_tokens: input, cache_read_tokens: read, cache_write_tokens: written } = usage;
  if (input === null) return usage;
  return { ...usage, input_tokens: Math.max(0, input - (read ?? 0) - (written ?? 0)) };
}
