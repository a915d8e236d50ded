/**
 * Intervals and tests for two proportions. Pure; any thread.
 */

import jstat from 'jstat';

export type Interval = [low: number, high: number];

/** The values of one group that an interval needs. */
export interface Sample {
  rate: number;
  /** Number of trials, divided by the design effect. */
  size: number;
}

const ALPHA = 0.05;
/**
 * Variance of the confidence sequence's mixing distribution, which must be fixed in advance. Chosen by Waudby-Smith's
 * rule (8.78 times the variance at which the sequence should be tightest) for about 200 runs per arm at a rate of one
 * half.
 */
const MIXTURE_VARIANCE = 0.022;
/** Two-sided 5 % quantile of the normal distribution. */
const Z = jstat.normal.inv(1 - ALPHA / 2, 0, 1);

/** Computes Wilson's score interval of a rate observed in `size` trials. */
export function wilsonInterval(rate: number, size: number): Interval {
  const square = Z * Z;
  const centre = (rate + square / (2 * size)) / (1 + square / size);
  const half = (Z / (1 + square / size)) * Math.sqrt((rate * (1 - rate)) / size + square / (4 * size * size));
  // At a rate of 0 or 1, one end of the interval equals the rate, apart from rounding.
  return [rate === 0 ? 0 : Math.max(0, centre - half), rate === 1 ? 1 : Math.min(1, centre + half)];
}

/** Computes Newcombe's interval of `on.rate - off.rate`. */
export function newcombeInterval(on: Sample, off: Sample): Interval {
  const diff = on.rate - off.rate;
  const [onLow, onHigh] = wilsonInterval(on.rate, on.size);
  const [offLow, offHigh] = wilsonInterval(off.rate, off.size);
  return [
    Math.max(-1, diff - Math.hypot(on.rate - onLow, offHigh - off.rate)),
    Math.min(1, diff + Math.hypot(onHigh - on.rate, off.rate - offLow)),
  ];
}

/** Computes the two-sided p-value of the pooled z test; 1 if all runs had the same outcome. */
export function pooledPValue(on: Sample, off: Sample): number {
  const pooled = (on.rate * on.size + off.rate * off.size) / (on.size + off.size);
  const variance = pooled * (1 - pooled) * (1 / on.size + 1 / off.size);
  if (variance <= 0) return 1;
  return Math.exp(logErfc(Math.abs(on.rate - off.rate) / Math.sqrt(2 * variance)));
}

/** Computes the confidence sequence's current interval of `on.rate - off.rate`. */
export function alwaysValidInterval(on: Sample, off: Sample): Interval {
  const variance = smoothedVariance(on) + smoothedVariance(off);
  const sum = variance + MIXTURE_VARIANCE;
  const half = Math.sqrt(
    ((2 * variance * sum) / MIXTURE_VARIANCE) * Math.log(Math.sqrt(sum / variance) / ALPHA),
  );
  const diff = on.rate - off.rate;
  return [Math.max(-1, diff - half), Math.min(1, diff + half)];
}

/**
 * Computes the variance of the rate with one success and one failure added, so that the first runs do not seem certain.
 */
function smoothedVariance({ rate, size }: Sample): number {
  const smoothed = (rate * size + 1) / (size + 2);
  return (smoothed * (1 - smoothed)) / size;
}

/**
 * Computes the upper tail of the chi-square distribution with one degree of freedom.
 * @returns its natural logarithm as well, because above a chi-square of about 1,400 the probability underflows
 */
export function chiSquareTail(chiSquare: number): { p_value: number; log_p_value: number } {
  const log = logErfc(Math.sqrt(chiSquare / 2));
  return { p_value: Math.exp(log), log_p_value: log };
}

/** At and above this value the continued fraction is more accurate. */
const FRACTION_FROM = 2;
/** Number of terms that give full precision at FRACTION_FROM. Larger values need fewer terms. */
const FRACTION_TERMS = 200;

/**
 * Computes the logarithm of the complementary error function, accurate to about 13 digits everywhere. `1 - erf(x)`
 * loses all digits in the tail, so the continued fraction is used there (Abramowitz and Stegun, 7.1.14).
 * @param x at least 0
 */
function logErfc(x: number): number {
  // The library's value at 0 is one bit below 1.
  if (x === 0) return 0;
  if (x < FRACTION_FROM) return Math.log(jstat.erfc(x));
  let fraction = x;
  for (let term = FRACTION_TERMS; term > 0; term--) fraction = x + term / 2 / fraction;
  return -x * x - Math.log(fraction) - Math.log(Math.PI) / 2;
}
