/**
 * Adds patterns to the store: merges near-duplicates, creates the others, and answers when all of them are on disk.
 * Actor thread.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  cleanPattern,
  type Pattern,
  type PatternScope,
  SAME_LESSON_COSINE,
  SAME_SITUATION_COSINE,
} from '../../src/domain/pattern.ts';
import {
  encodeVector,
  PATTERN_SOURCES,
  PATTERN_VECTORS,
  PATTERNS,
  type PatternRow,
  patternKey,
  putPattern,
  readPattern,
  roundVector,
  type SourceRow,
  sourceKey,
  vectorKey,
} from '../../src/domain/pattern-rows.ts';
import {
  areEquivalent,
  generalizePattern,
  isDistilled,
  joinPatterns,
} from '../../src/domain/patterns/drafts.ts';
import { situationVectorsId } from '../../src/domain/situation-vectors.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { RowKey, RowWrite } from '../../src/runtime/protocol.ts';
import type { Embedder } from '../../src/search/embedder.ts';
import type { AddedPattern, MergedPattern } from './protocol.ts';
import type { Entry, PatternScopes, Scope } from './scopes.ts';
import { nextTick, STRETCH_MS } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

/** Maximum number of source traces kept per pattern; the oldest are dropped first. */
export const PATTERN_SOURCES_KEPT = 20;

/** A created or merged pattern that is not on disk yet. */
interface Draft {
  pattern: Pattern;
  /** null for a pattern that existed before and is changed. */
  vector: Float32Array | null;
  /** The pattern's row before the change; null: the pattern is new. */
  before: PatternRow | null;
}

/** The row that says which pattern a trace produced; not on disk yet. */
interface DraftSource {
  row: RowKey;
  value: SourceRow;
  before: SourceRow | undefined;
}

/** A row that must not have changed since it was read. Otherwise nothing is written. */
interface ExpectedRow {
  table: string;
  row: RowKey;
  value: unknown;
}

/** Another box has changed a row since it was read. */
class ChangedMeanwhileError extends Error {
  override readonly name = 'ChangedMeanwhileError';
}

/** Maximum number of attempts of an intake. An attempt is repeated if another box has changed a row that it read. */
const ATTEMPTS = 5;

/** Maximum number of similar patterns that are compared with a new or changed pattern. */
const TWIN_CANDIDATES = 8;
/** Maximum number of situations embedded in one call. */
export const EMBED_TEXTS = 32;
/**
 * If more vectors than this are not in the graph, an import first builds a part of the graph, so that its search for
 * duplicates stays fast.
 */
const UNLINKED_MAX = 512;

export class PatternIntake {
  readonly #parts: Pick<StoreParts, 'tables' | 'embedder' | 'clock' | 'newId'>;
  readonly #scopes: PatternScopes;

  constructor(parts: Pick<StoreParts, 'tables' | 'embedder' | 'clock' | 'newId'>, scopes: PatternScopes) {
    this.#parts = parts;
    this.#scopes = scopes;
  }

  /** Embeds the situations of patterns. @throws the embedder's error */
  embed(patterns: readonly { situation: string }[]): Promise<Float32Array[]> {
    return embedInPortions(this.#parts.embedder, patterns);
  }

  /**
   * Adds patterns, or merges each into its near-duplicate: all of them or none. One call at a time.
   * @param patterns cleaned, see {@link cleanAdded}
   * @param more rows that belong to the same transaction
   * @param expected rows that must be unchanged; otherwise nothing is written
   * @throws CatalogueError `conflict` when there is no room, `unavailable` when they cannot be written now
   */
  async take(
    scope: PatternScope,
    patterns: readonly AddedPattern[],
    vectors: readonly Float32Array[],
    more: (outcomes: readonly MergedPattern[]) => RowWrite[] = () => [],
    expected: readonly ExpectedRow[] = [],
  ): Promise<MergedPattern[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#takeOnce(scope, patterns, vectors, more, expected);
      } catch (thrown) {
        if (thrown instanceof CatalogueError) throw thrown;
        if (thrown instanceof ChangedMeanwhileError && attempt < ATTEMPTS) continue;
        throw new CatalogueError('unavailable', 'The pattern store cannot store patterns now', {
          cause: thrown,
        });
      }
    }
  }

  async #takeOnce(
    scope: PatternScope,
    patterns: readonly AddedPattern[],
    vectors: readonly Float32Array[],
    more: (outcomes: readonly MergedPattern[]) => RowWrite[],
    expected: readonly ExpectedRow[],
  ): Promise<MergedPattern[]> {
    const home = this.#scopes.of(scope);
    this.#scopes.checkRoom(home, patterns.length);
    const drafts = new Map<string, Draft>();
    const sources = new Map<string, DraftSource>();
    const entered: number[] = [];
    const outcomes: MergedPattern[] = [];
    try {
      let until = performance.now() + STRETCH_MS;
      for (const [at, pattern] of patterns.entries()) {
        if (performance.now() >= until) {
          await nextTick();
          until = performance.now() + STRETCH_MS;
        }
        while (home.index.unlinked > UNLINKED_MAX && home.index.tend(STRETCH_MS)) await nextTick();
        const vector = vectors[at]!;
        const duplicate = this.#findDuplicate(home, pattern, vector, drafts);
        outcomes.push(this.#decide(home, pattern, vector, duplicate, drafts, sources, entered));
      }
      await this.#write(drafts, sources, more(outcomes), expected);
    } catch (thrown) {
      for (const id of entered) this.#scopes.forget(home, id);
      throw thrown;
    }
    return outcomes;
  }

  /** Finds the nearest other stored pattern that was made from a trace and has the same lesson; null without one. */
  findTwin(home: Scope, pattern: Pattern, vector: Float32Array): Pattern | null {
    const accept = (id: number) => home.entries[id]?.pattern_id !== pattern.pattern_id;
    for (const { id, similarity } of home.index.search(vector, TWIN_CANDIDATES, accept, SAME_LESSON_COSINE)) {
      const known = this.#draftOf(home, home.entries[id], new Map())?.pattern;
      if (known !== undefined && isOfTrace(known) && areEquivalent(known, pattern, similarity)) return known;
    }
    return null;
  }

  /**
   * Returns the earlier outcome if the pattern's trace has already given a pattern for this situation, and that pattern
   * still exists. Otherwise merges the pattern into its duplicate, in the drafts, or creates it, in memory and in the
   * drafts.
   */
  #decide(
    home: Scope,
    pattern: AddedPattern,
    vector: Float32Array,
    duplicate: Draft | null,
    drafts: Map<string, Draft>,
    sources: Map<string, DraftSource>,
    entered: number[],
  ): MergedPattern {
    const { source_trace_id: trace, ...texts } = pattern;
    const { tables, clock, newId } = this.#parts;
    const row = trace === null ? null : sourceKey(home.scope, trace, pattern.situation);
    const sourceName = row?.join('/') ?? '';
    const drafted = sources.get(sourceName);
    const stored =
      row === null || drafted !== undefined ? undefined : tables.get<SourceRow>(PATTERN_SOURCES, row);
    const source = drafted?.value ?? stored;
    // The pattern that this source produced may have been removed.
    const isThere =
      source !== undefined &&
      (drafts.has(source.pattern_id) ||
        tables.get(PATTERNS, patternKey(home.scope, source.pattern_id)) !== undefined);
    if (isThere) return { pattern_id: source.pattern_id, created: source.created };
    const now = new Date(clock.wallMs()).toISOString();
    let outcome: MergedPattern;
    if (duplicate !== null) {
      const { pattern: known } = duplicate;
      const isNew = trace === null || !known.sources.includes(trace);
      const merged = {
        // Patterns written by people keep their text.
        ...(isOfTrace(known) && isOfTrace(pattern) ? joinPatterns(known, pattern) : known),
        support: known.support + (isNew ? 1 : 0),
        sources:
          trace !== null && isNew ? [...known.sources, trace].slice(-PATTERN_SOURCES_KEPT) : known.sources,
        updated_at: now,
      };
      drafts.set(known.pattern_id, { ...duplicate, pattern: merged });
      outcome = { pattern_id: known.pattern_id, created: false };
    } else {
      const created: Pattern = {
        ...texts,
        ...home.scope,
        pattern_id: `pat_${newId()}`,
        support: 1,
        sources: trace === null ? [] : [trace],
        created_at: now,
        updated_at: now,
      };
      entered.push(this.#scopes.enter(home, created, vector));
      drafts.set(created.pattern_id, { pattern: created, vector, before: null });
      outcome = { pattern_id: created.pattern_id, created: true };
    }
    if (row !== null)
      sources.set(sourceName, {
        row,
        value: outcome,
        before: drafted === undefined ? stored : drafted.before,
      });
    return outcome;
  }

  /**
   * Finds the nearest stored or drafted pattern with nearly the same situation or, if both patterns were made from
   * traces, with the same lesson; null without one.
   */
  #findDuplicate(
    home: Scope,
    pattern: AddedPattern,
    vector: Float32Array,
    drafts: ReadonlyMap<string, Draft>,
  ): Draft | null {
    const floor = isOfTrace(pattern) ? SAME_LESSON_COSINE : SAME_SITUATION_COSINE;
    for (const { id, similarity } of home.index.search(vector, TWIN_CANDIDATES, undefined, floor)) {
      const candidate = this.#draftOf(home, home.entries[id], drafts);
      if (candidate === null) continue;
      const { pattern: known } = candidate;
      if (similarity >= SAME_SITUATION_COSINE) return candidate;
      if (isOfTrace(known) && areEquivalent(known, pattern, similarity)) return candidate;
    }
    return null;
  }

  #draftOf(home: Scope, entry: Entry | undefined, drafts: ReadonlyMap<string, Draft>): Draft | null {
    if (entry === undefined) return null;
    const draft = drafts.get(entry.pattern_id);
    if (draft !== undefined) return draft;
    const key = patternKey(home.scope, entry.pattern_id);
    const row = this.#parts.tables.get<PatternRow>(PATTERNS, key);
    return row === undefined ? null : { pattern: readPattern(key, row), vector: null, before: row };
  }

  async #write(
    drafts: ReadonlyMap<string, Draft>,
    sources: ReadonlyMap<string, DraftSource>,
    more: readonly RowWrite[],
    expected: readonly ExpectedRow[],
  ): Promise<void> {
    const { tables, embedder } = this.#parts;
    const writes: RowWrite[] = [...more];
    for (const { pattern, vector } of drafts.values()) {
      writes.push(putPattern(pattern));
      if (vector === null) continue;
      const row = vectorKey(situationVectorsId(embedder), pattern, pattern.pattern_id);
      writes.push({ op: 'put', table: PATTERN_VECTORS, row, value: encodeVector(vector) });
    }
    for (const { row, value } of sources.values())
      writes.push({ op: 'put', table: PATTERN_SOURCES, row, value });
    if (writes.length === 0) return;
    const asRead = [
      ...expected,
      ...[...drafts.values()].flatMap(({ pattern, before }) =>
        before === null
          ? []
          : [{ table: PATTERNS, row: patternKey(pattern, pattern.pattern_id), value: before }],
      ),
      ...[...sources.values()].map(({ row, before }) => ({ table: PATTERN_SOURCES, row, value: before })),
    ];
    await tables.transact((transaction) => {
      for (const { table, row, value } of asRead)
        if (!isDeepStrictEqual(transaction.get(table, row), value)) throw new ChangedMeanwhileError();
      for (const write of writes) transaction.write(write);
    });
  }
}

/** Brings a pattern into stored form: bounded, without secrets, and without values of the run that it was made from. */
export function cleanAdded({ source_trace_id, ...pattern }: AddedPattern): AddedPattern {
  const clean = { ...cleanPattern(pattern), source_trace_id };
  return isOfTrace(clean) ? generalizePattern(clean) : clean;
}

/**
 * Whether a pattern was made from a run, judged by its source or by its text. Patterns written by people are not
 * changed.
 */
export function isOfTrace(
  pattern: Pick<Pattern, 'situation' | 'dead_ends'> &
    ({ sources: readonly string[] } | { source_trace_id: string | null }),
): boolean {
  const isSourced = 'sources' in pattern ? pattern.sources.length > 0 : pattern.source_trace_id !== null;
  return isSourced || isDistilled(pattern);
}

/** Embeds the situations of patterns, rounded as in the rows of vectors. Rejects with the embedder's error. */
export async function embedInPortions(
  embedder: Embedder,
  patterns: readonly { situation: string }[],
): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for (let at = 0; at < patterns.length; at += EMBED_TEXTS) {
    const situations = patterns.slice(at, at + EMBED_TEXTS).map(({ situation }) => situation);
    vectors.push(...(await embedder.embed(situations)).map(roundVector));
  }
  return vectors;
}
