/** Upper bounds on a student's error rate, from its errors among a number of answers. Pure; teaching. */

import jstat from 'jstat';

/** Confidence of {@link boundError}, and for kinds of answers without irrevocable effects. */
export const CONFIDENCE = 0.95;

/**
 * Upper bound on the true error rate, one-sided at 95 % (Clopper and Pearson, Biometrika 26, 1934). Exact for
 * independent steps; steps of one run are not quite independent.
 * @param served at least 1
 */
export function boundError(errors: number, served: number): number {
  return errors >= served ? 1 : jstat.beta.inv(CONFIDENCE, errors + 1, served - errors);
}

/**
 * The bound's prior for a kind of answer, as a beta distribution that counts as one observation. A student
 * either has learned the rule of a kind or has not, so its error rate is usually near 0 or large.
 * docs/student-rounds.md says how often the promise is broken with this prior.
 */
const KIND_PRIOR = { wrong: 0.1, right: 0.9 } as const;

/**
 * Upper bound on the error rate of one kind of answer, by Bayes' rule from {@link KIND_PRIOR}: with probability
 * `confidence` the rate is lower. Without an error, a bound of 5 % takes 11 runs at 95 %, and 26 runs at 98.5 %.
 * @param errors runs in which the student was wrong; may be a fraction
 * @param runs in which the student served the kind
 */
export function boundKindError(errors: number, runs: number, confidence: number): number {
  if (runs === 0 || errors >= runs) return 1;
  return jstat.beta.inv(confidence, errors + KIND_PRIOR.wrong, runs - errors + KIND_PRIOR.right);
}

/** Whether the bound of {@link boundKindError} is at most `share`. This is faster than computing the bound. */
export function keepsKindError(errors: number, runs: number, confidence: number, share: number): boolean {
  if (runs === 0 || errors >= runs) return false;
  return jstat.beta.cdf(share, errors + KIND_PRIOR.wrong, runs - errors + KIND_PRIOR.right) >= confidence;
}
