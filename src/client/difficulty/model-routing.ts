/**
 * The option `modelRouting`: a model for each state of the difficulty machine. Pure; any thread.
 */

import { DIFFICULTY_STATES, type DifficultyState } from './machine.ts';

/** Names of models by state; a state may be left out. */
export type ModelRouting = Partial<Record<DifficultyState, string>>;

/** Checks and copies the routing. @throws RangeError, which names the key, for an unknown state or an invalid model name */
export function readModelRouting(given: ModelRouting = {}): Readonly<ModelRouting> {
  for (const [state, model] of Object.entries(given)) {
    if (!DIFFICULTY_STATES.some((known) => known === state))
      throw new RangeError(
        `modelRouting.${state} is unknown; the states are ${DIFFICULTY_STATES.join(', ')}`,
      );
    if (model !== undefined && (typeof model !== 'string' || model === ''))
      throw new RangeError(`modelRouting.${state} must be the name of a model`);
  }
  return Object.freeze({ ...given });
}

/** Returns the model for the state; null if the routing names none: the agent keeps its current model. */
export function routeModel(routing: Readonly<ModelRouting>, state: DifficultyState): string | null {
  return routing[state] ?? null;
}
