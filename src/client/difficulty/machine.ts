/**
 * The difficulty machine: how hard the last steps looked decides whether the next one is for a fast model, for a slow one, or
 * needs none. Its rules are in docs/difficulty.md; the Python client has the same, and `clients/cases/machine.json` holds both
 * to them. Memory is the largest window. Pure; any thread.
 */

import { type FsmThresholds, readThresholds } from './thresholds.ts';

/** From easy to hard: SKIP, FAST, SLOW. */
export type DifficultyState = 'FAST' | 'SLOW' | 'SKIP';

export const DIFFICULTY_STATES: readonly DifficultyState[] = ['FAST', 'SLOW', 'SKIP'];

/** Means of equal numbers over different windows differ by their rounding: closer than this is equal. */
const EQUAL = 1e-9;

/** One for each run. It begins as FAST. */
export class DifficultyMachine {
  readonly #thresholds: Readonly<FsmThresholds>;
  readonly #remembered: number;
  /** Oldest first. */
  readonly #scores: number[] = [];
  #state: DifficultyState = 'FAST';

  /** @throws RangeError, as readThresholds */
  constructor(thresholds: Partial<FsmThresholds> = {}) {
    this.#thresholds = readThresholds(thresholds);
    const { fastWindow, slowWindow, skipWindow } = this.#thresholds;
    this.#remembered = Math.max(fastWindow, slowWindow, skipWindow);
  }

  get state(): DifficultyState {
    return this.#state;
  }

  /**
   * @param score of the step that was just made, in [0, 1]; what is no number is passed over, what is outside is held inside
   * @returns the state from now on; it changes at most once a step
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
 * @param scores oldest first; a window that is not full yet decides nothing
 * @param thresholds as readThresholds gives them
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

/** Added up from the oldest, in both languages: the last digit depends on the order. */
function meanOfLast(scores: readonly number[], window: number): number | null {
  if (scores.length < window) return null;
  let sum = 0;
  for (let index = scores.length - window; index < scores.length; index += 1) sum += scores[index]!;
  return sum / window;
}
