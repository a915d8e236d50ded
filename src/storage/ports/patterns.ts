/** Stored patterns. The pattern index writes them. Types; any thread. */
import type { NewPattern, Pattern, PatternScope } from '../../domain/pattern.ts';
import type { PatternRow } from '../../domain/pattern-rows.ts';

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface PatternReads {
  find(scope: PatternScope, pattern_id: string): PatternRow | undefined;
  /**
   * Lists the patterns of a scope, lazily.
   * @param after the pattern at which the previous page ended; null: from the beginning
   */
  list(scope: PatternScope, order: 'newest' | 'oldest', after: string | null): Iterable<Pattern>;
  /** Lists the first patterns of a tier. @param project_id null: of the whole organization */
  listOf(
    tier: PatternScope['tier'],
    org_id: string,
    project_id: string | null,
    limit: number,
  ): { project_id: string; pattern_id: string }[];
  /** Whether this is one of the product's starter patterns. */
  isStarter(pattern_id: string): boolean;
}

/** What a transaction may do. */
export interface PatternWork extends PatternReads {
  /** Stores patterns that the pattern index then imports, in portions. */
  addImport(scope: PatternScope, patterns: readonly NewPattern[]): void;
}
