/** Converts the token counts of all wires to the same meaning. Pure; any thread. */
import type { ApiShape, TokenUsage } from '../domain/exchange.ts';
import { leaveOutCache } from './usage-counts.ts';
import { WIRES } from './wires.ts';

/** Converts the counts of a turn so that the input excludes cached tokens; counts without a shape stay as they are. */
export function readFreshUsage(shape: ApiShape | null, usage: TokenUsage): TokenUsage {
  return shape !== null && WIRES[shape].usage.includes_cache ? leaveOutCache(usage) : usage;
}
