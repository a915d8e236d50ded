/** Patterns of many runs, each situation once. Pure; command line. */

import type { DistilledPattern } from '../domain/distillation/distil.ts';
import { SAME_SITUATION_COSINE } from '../limits.ts';

/** A pattern and how many runs it came from. */
export interface MergedPattern extends DistilledPattern {
  support: number;
}

/**
 * Merges patterns whose situations are the same or nearly (cosine ≥ SAME_SITUATION_COSINE): the first one stays, its
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
    const same = kept.find(
      (other) =>
        other.pattern.situation === pattern.situation ||
        (vector !== null && other.vector !== null && cosine(vector, other.vector) >= SAME_SITUATION_COSINE),
    );
    if (same === undefined) kept.push({ pattern: { ...pattern, support: 1 }, vector });
    else same.pattern.support += 1;
  }
  return kept.map(({ pattern }) => pattern).sort((a, b) => b.support - a.support);
}

function cosine(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
