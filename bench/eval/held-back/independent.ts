/** Moves with calls that do not depend on each other. Pure; bench process. */

import type { Move, WantedCall } from './held-back-agent.ts';

/** More calls at once would have too many subsets. */
const CALLS_MAX = 8;
/** How often a model that makes one call at a time chooses the first call of the list. */
const FIRST_SHARE = 0.8;

/**
 * Lists the moves of independent calls: it is right to make any of them, alone or together.
 * @param together how often the model makes all at once; otherwise it makes one, mostly the first
 * @throws Error for more than `CALLS_MAX` calls
 */
export function anyOf(calls: readonly WantedCall[], together: number): Move[] {
  if (calls.length > CALLS_MAX) throw new Error(`${calls.length} independent calls`);
  const moves: Move[] = [];
  for (let set = 1; set < 2 ** calls.length; set++) {
    const chosen = calls.filter((_, at) => (set >> at) % 2 === 1);
    moves.push({ weight: weigh(calls, chosen, together), calls: chosen });
  }
  return moves;
}

function weigh(calls: readonly WantedCall[], chosen: readonly WantedCall[], together: number): number {
  if (calls.length === 1) return 1;
  if (chosen.length === calls.length) return together;
  if (chosen.length > 1) return 0;
  const share = chosen[0] === calls[0] ? FIRST_SHARE : (1 - FIRST_SHARE) / (calls.length - 1);
  return (1 - together) * share;
}

/** Returns the same moves, with their weights scaled so that they sum to `weight`; if all are 0, they stay 0. */
export function scaled(moves: readonly Move[], weight: number): Move[] {
  const sum = moves.reduce((total, move) => total + move.weight, 0);
  return moves.map((move) => ({ ...move, weight: sum === 0 ? 0 : (move.weight * weight) / sum }));
}
