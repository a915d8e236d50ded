/**
 * The difficulty machine: the difficulty of the last steps decides whether the next step goes to a fast model, goes to
 * a slow model, or needs no model. docs/difficulty.md has the rules. The Python client implements the same machine;
 * `clients/cases/machine.json` tests both. The machine keeps only as many scores as the largest window needs. Pure; any
 * thread.
 */

import { type FsmThresholds, readThresholds } from './thresholds.ts';

/** The states of the machine, from easy to hard: SKIP, FAST, SLOW. */
export type DifficultyState = 'FAST' | 'SLOW' | 'SKIP';

export const DIFFICULTY_STATES: readonly DifficultyState[] = ['FAST', 'SLOW', 'SKIP'];

/**
 * Differences below this count as equal, because means over different windows have different
 * rounding errors.
 */
const EQUAL = 1e-9;

/** The machine of one run. Its first state is FAST. */
export class DifficultyMachine {
  readonly #thresholds: Readonly<FsmThresholds>;
  readonly #remembered: number;
  /** Oldest first. */
  readonly #scores: number[] = [];
  #state: DifficultyState = 'FAST';

  /** @throws RangeError for the same values as readThresholds */
  constructor(thresholds: Partial<FsmThresholds> = {}) {
    this.#thresholds = readThresholds(thresholds);
    const { fastWindow, slowWindow, skipWindow } = this.#thresholds;
    this.#remembered = Math.max(fastWindow, slowWindow, skipWindow);
  }

  get state(): DifficultyState {
    return this.#state;
  }

  /**
   * Adds the score of the latest step.
   * @param score in [0, 1]. Other numbers are clamped. NaN and values that are not numbers are ignored
   * @returns the new state; it changes at most once per step
   */
  observe(score: number): DifficultyState {
    if (typeof score !== 'number' || Number.isNaN(score)) return this.#state;
    if (this.#scores.length === this.#remembered) this.#scores.shift();
    this.#scores.push(Math.min(1, Math.max(0, score)));
    this.#state = nextState(this.#state, this.#scores, this.#thresholds);
    return this.#state;
  }
}

/**
 * Decides the state after a step.
 * @param scores oldest first. A window that is not full changes nothing
 * @param thresholds the result of readThresholds
 */
export function nextState(
  state: DifficultyState,
  scores: readonly number[],
  thresholds: Readonly<FsmThresholds>,
): DifficultyState {
  const { fastThreshold, slowThreshold, skipThreshold, hysteresisMargin } = thresholds;
  const slow = meanOfLast(scores, thresholds.slowWindow);
  if (slow !== null && slow >= slowThreshold - EQUAL) return 'SLOW';
  if (state === 'FAST') {
    const skip = meanOfLast(scores, thresholds.skipWindow);
    return skip !== null && skip <= skipThreshold + EQUAL ? 'SKIP' : 'FAST';
  }
  const fast = meanOfLast(scores, thresholds.fastWindow);
  if (fast === null) return state;
  if (state === 'SKIP') return fast > skipThreshold + hysteresisMargin + EQUAL ? 'FAST' : 'SKIP';
  const isEasy = fast <= fastThreshold + EQUAL && fast < slowThreshold - hysteresisMargin - EQUAL;
  return isEasy ? 'FAST' : 'SLOW';
}

/**
 * Returns the mean of the last `window` scores; null with fewer scores. The sum begins with the oldest score,
 * as in the Python client, because the rounding depends on the order.
 */
function meanOfLast(scores: readonly number[], window: number): number | null {
  if (scores.length < window) return null;
  let sum = 0;
  for (let index = scores.length - window; index < scores.length; index += 1) sum += scores[index]!;
  return sum / window;
}
