/** Patterns of many runs, each situation once. Pure; command line. */

import { type DistilledPattern, isSameSituation } from '../domain/distillation/distil.ts';

/** A pattern and how many runs it came from. */
export interface MergedPattern extends DistilledPattern {
  support: number;
}

/**
 * Merges patterns whose situations are the same or nearly (`isSameSituation`): the first one stays, its
 * support goes up.
 * @param vectors of the situations, of length 1; null: equal texts alone are the same
 * @returns the best supported first
 */
export function mergePatterns(
  patterns: readonly DistilledPattern[],
  vectors: readonly Float32Array[] | null,
): MergedPattern[] {
  const kept: { pattern: MergedPattern; vector: Float32Array | null }[] = [];
  for (const [at, pattern] of patterns.entries()) {
    const vector = vectors?.[at] ?? null;
    const same = kept.find((other) => isSameSituation(other.pattern, other.vector, pattern, vector));
    if (same === undefined) kept.push({ pattern: { ...pattern, support: 1 }, vector });
    else same.pattern.support += 1;
  }
  return kept.map(({ pattern }) => pattern).sort((a, b) => b.support - a.support);
}
