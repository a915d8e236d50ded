/** Converts the token counts of all wires to the same meaning. Pure; any thread. */
import type { ApiShape, TokenUsage } from '../domain/exchange.ts';
import { leaveOutCache } from './usage-counts.ts';
import { WIRES } from './wires.ts';

/** @returns the counts of a turn, with an input that excludes cached tokens */
export function readFreshUsage(shape: ApiShape | null, usage: TokenUsage): TokenUsage {
  return shape !== null && WIRES[shape].usage.includes_cache ? leaveOutCache(usage) : usage;
}
