/**
 * Whether what is observed still keeps to a promised share of errors: a sequential test that may be looked at after every
 * observation. Pure; the student's thread, and the bench.
 *
 * It is an e-process. For each alternative share of errors (above the promise) and each moment at which the world may have
 * changed, the likelihood ratio of what came since is a fair bet against the promise; the test holds their weighted mean.
 * As long as the chance of an error, given all that was seen before, is at most the promise, the mean is a nonnegative
 * supermartingale that starts at 1. So it reaches 1/α at any time, however long one looks, with a probability of at most α
 * (Ville). The n-th moment weighs 1/(n(n+1)), which sums to 1 and lets one number an alternative stand for all moments.
 */

/** Where the test stands; plain data, so that it can be kept in a file. */
export interface DriftState {
  observed: number;
  wrong: number;
  /** For each alternative: what the bets that began so far are worth. */
  bets: number[];
}

/** How far between the promise and 1 the alternatives lie: from a little worse to nearly always wrong. */
const ALTERNATIVES = [0.05, 0.16, 0.47, 0.9] as const;
/** Beyond it a bet grows no more: it has been won long before, and a number that is not finite would be kept for ever. */
const MOST = 1e100;

/** A test that has seen nothing. */
export function startDrift(): DriftState {
  return { observed: 0, wrong: 0, bets: ALTERNATIVES.map(() => 0) };
}

/**
 * Takes one observation, in place.
 * @param promise largest share of errors that is promised, between 0 and 1
 * @returns the evidence against the promise: at least 1/α with a probability of at most α where the promise is kept
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

/** The evidence as it stands; 1 for a test that has seen nothing. */
export function evidenceOf({ observed, bets }: DriftState): number {
  const sum = bets.reduce((all, bet) => all + bet, 0);
  // What is not bet yet.
  return sum / bets.length + 1 / (observed + 1);
}

/** The alternative that a suspicion is cleared against: four times the promise, and no more than half. */
function suspected(promise: number): number {
  return Math.max(Math.min(0.5, 4 * promise), promise + (1 - promise) * 0.05);
}

/** Where a suspicion begins: with the one answer that raised it. */
export function startSuspicion(promise: number): number {
  return doubt(0, true, promise);
}

/**
 * A suspicion after one more comparison: the logarithm of the likelihood ratio of {@link suspected} and the promise.
 * @returns at most -{@link CLEARED} when it is cleared
 */
export function doubt(suspicion: number, isWrong: boolean, promise: number): number {
  const p = suspected(promise);
  return suspicion + (isWrong ? Math.log(p / promise) : Math.log((1 - p) / (1 - promise)));
}

/** A drift of {@link suspected} is taken for none at most once in e³ = 20 times (Wald). */
export const CLEARED = 3;
