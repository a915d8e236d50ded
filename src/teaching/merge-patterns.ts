/** Merges the patterns of many runs, so that each rule occurs once. Pure; command line. */

import { areEquivalent, joinPatterns, type PatternDraft } from '../domain/patterns/drafts.ts';
import { cosineOf } from '../domain/situation-vectors.ts';

/** A pattern and how many runs it came from. */
interface MergedPattern extends PatternDraft {
  support: number;
}

/**
 * Merges patterns with the same lesson (`areEquivalent`): the first one stays, with the dead ends of both and
 * a larger support.
 * @param vectors the situations' vectors, of length 1; null: situations match only if their texts are equal
 * @returns the merged patterns, those with the largest support first
 */
export function mergePatterns(
  patterns: readonly PatternDraft[],
  vectors: readonly Float32Array[] | null,
): MergedPattern[] {
  const kept: { pattern: MergedPattern; vector: Float32Array | null }[] = [];
  for (const [at, pattern] of patterns.entries()) {
    const vector = vectors?.[at] ?? null;
    const same = kept.find((other) =>
      areEquivalent(other.pattern, pattern, similarityOf(other, pattern, vector)),
    );
    if (same === undefined) kept.push({ pattern: { ...pattern, support: 1 }, vector });
    else same.pattern = { ...joinPatterns(same.pattern, pattern), support: same.pattern.support + 1 };
  }
  return kept.map(({ pattern }) => pattern).sort((a, b) => b.support - a.support);
}

function similarityOf(
  other: { pattern: PatternDraft; vector: Float32Array | null },
  pattern: PatternDraft,
  vector: Float32Array | null,
): number {
  if (other.pattern.situation === pattern.situation) return 1;
  return other.vector === null || vector === null ? 0 : cosineOf(other.vector, vector);
}
