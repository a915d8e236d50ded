/** Converts each wire's token counts to one meaning. Pure; any thread. */
import type { ApiShape, TokenUsage } from '../domain/exchange.ts';
import { leaveOutCache } from './usage-counts.ts';
import { WIRES } from './wires.ts';

/** @returns a turn's counts, its input without cached tokens */
export function readFreshUsage(shape: ApiShape | null, usage: TokenUsage): TokenUsage {
  return shape !== null && WIRES[shape].usage.includes_cache ? leaveOutCache(usage) : usage;
}
