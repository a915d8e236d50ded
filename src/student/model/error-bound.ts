/** Upper bound of a student's error rate, from its errors among a number of answers. Pure; analysis. */

import jstat from 'jstat';

/** Of {@link boundError}, and of kinds of answers that change nothing for good. */
export const CONFIDENCE = 0.95;

/**
 * Upper bound of the true share of errors, one-sided at 95 % (Clopper and Pearson, Biometrika 26, 1934): exact for
 * independent steps; steps of one run are not quite that.
 * @param served at least 1
 */
export function boundError(errors: number, served: number): number {
  return errors >= served ? 1 : jstat.beta.inv(CONFIDENCE, errors + 1, served - errors);
}

/**
 * What the bound supposes of a kind of answer before it has seen any, as a beta distribution that counts as one
 * observation. A student has mostly learnt the rule of a kind, or it has not, so its share of errors is near 0 or large.
 */
const KIND_PRIOR = { wrong: 0.1, right: 0.9 } as const;

/**
 * Upper bound of the share of errors of one kind of answer: with `confidence` the share is below it, by Bayes' rule from
 * {@link KIND_PRIOR}. Without an error it takes 11 runs for 5 % at 95 %, and 26 at 98.5 %.
 * @param errors runs in which the student was wrong; may be a fraction
 * @param runs in which it served the kind
 */
export function boundKindError(errors: number, runs: number, confidence: number): number {
  if (runs === 0 || errors >= runs) return 1;
  return jstat.beta.inv(confidence, errors + KIND_PRIOR.wrong, runs - errors + KIND_PRIOR.right);
}

/** Whether that bound is at most `share`; quicker. */
export function keepsKindError(errors: number, runs: number, confidence: number, share: number): boolean {
  if (runs === 0 || errors >= runs) return false;
  return jstat.beta.cdf(share, errors + KIND_PRIOR.wrong, runs - errors + KIND_PRIOR.right) >= confidence;
}
