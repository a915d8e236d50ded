/**
 * Tests whether observations still keep a promised error rate. It is a sequential test that may be checked after every
 * observation. Pure; the student's thread, and the bench.
 *
 * The test is an e-process. For each alternative error rate (above the promise) and each possible moment of change, the
 * likelihood ratio of the later observations is a fair bet against the promise; the test computes their weighted mean.
 * While the conditional probability of an error, given all earlier observations, is at most the promise, the mean is a
 * nonnegative supermartingale that starts at 1. So the probability that it ever reaches 1/α is at most α (Ville). The
 * n-th moment has the weight 1/(n(n+1)). These weights sum to 1, and with them one number per alternative represents
 * all moments.
 */

/** State of the test; plain data, so that a file can keep it. */
export interface DriftState {
  observed: number;
  wrong: number;
  /** For each alternative, the value of all bets begun so far. */
  bets: number[];
}

/** Position of the alternatives between the promise and 1: from slightly worse to nearly always wrong. */
const ALTERNATIVES = [0.05, 0.16, 0.47, 0.9] as const;
/**
 * Maximum of a bet. The test ends long before a bet reaches it. Without a maximum, an infinite bet would stay infinite
 * for ever.
 */
const MOST = 1e100;

/** A test without observations. */
export function startDrift(): DriftState {
  return { observed: 0, wrong: 0, bets: ALTERNATIVES.map(() => 0) };
}

/**
 * Adds one observation, in place.
 * @param promise largest promised error rate, between 0 and 1
 * @returns the evidence against the promise: at least 1/α with a probability of at most α while the promise is kept
 */
export function observe(state: DriftState, isWrong: boolean, promise: number): number {
  const n = ++state.observed;
  if (isWrong) state.wrong++;
  const begun = 1 / (n * (n + 1));
  for (const [i, far] of ALTERNATIVES.entries()) {
    const alternative = promise + (1 - promise) * far;
    const ratio = isWrong ? alternative / promise : (1 - alternative) / (1 - promise);
    state.bets[i] = Math.min(MOST, (state.bets[i]! + begun) * ratio);
  }
  return evidenceOf(state);
}

/** The current evidence; 1 for a test without observations. */
export function evidenceOf({ observed, bets }: DriftState): number {
  const sum = bets.reduce((all, bet) => all + bet, 0);
  // The last term is the weight of all later moments.
  return sum / bets.length + 1 / (observed + 1);
}

/**
 * The alternative error rate that must be ruled out to clear a suspicion: the larger of two rates. The first is four
 * times the promise, but at most one half. The second is the promise plus 5 % of the difference between 1 and the
 * promise.
 */
function suspected(promise: number): number {
  return Math.max(Math.min(0.5, 4 * promise), promise + (1 - promise) * 0.05);
}

/** Returns the suspicion of a kind after the wrong answer that raised it. */
export function startSuspicion(promise: number): number {
  return doubt(0, true, promise);
}

/**
 * A suspicion after one more comparison: the log likelihood ratio of {@link suspected} and the promise.
 * @returns at most -{@link CLEARED} when it is cleared
 */
export function doubt(suspicion: number, isWrong: boolean, promise: number): number {
  const p = suspected(promise);
  return suspicion + (isWrong ? Math.log(p / promise) : Math.log((1 - p) / (1 - promise)));
}

/** At this value, a drift of {@link suspected} is missed at most once in e³ = 20 times (Wald). */
export const CLEARED = 3;
