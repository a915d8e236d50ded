/**
 * Takes patterns in: merges those that count as the same, enters the rest, and has all of it on the disk before it
 * answers. Actor thread.
 */
import { cleanPattern, type Pattern, type PatternScope } from '../../src/domain/pattern.ts';
import {
  encodeVector,
  PATTERN_SOURCES,
  PATTERN_VECTORS,
  PATTERNS,
  type PatternRow,
  patternKey,
  putPattern,
  readPattern,
  type SourceRow,
  sourceKey,
  vectorKey,
} from '../../src/domain/pattern-rows.ts';
import {
  cosineOf,
  embedSituations,
  type SituationVectors,
  situationVectorsId,
} from '../../src/domain/situation-vectors.ts';
import { CatalogueError } from '../../src/errors.ts';
import { PATTERN_SOURCES_KEPT, SAME_SITUATION_COSINE } from '../../src/limits.ts';
import type { RowKey, RowWrite } from '../../src/runtime/protocol.ts';
import type { Embedder } from '../../src/search/embedder.ts';
import type { AddedPattern, MergedPattern } from './protocol.ts';
import type { Entry, PatternScopes, Scope } from './scopes.ts';
import { nextTick, STRETCH_MS } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

/** A pattern that an intake has decided on, not yet on the disk. */
interface Draft {
  pattern: Pattern;
  /** null: it was there before, and is changed. */
  vector: Float32Array | null;
}

/** Patterns near enough to be looked at whole: whether one of them is the same. */
const TWIN_CANDIDATES = 4;
const TWIN_SEARCH_COSINE = 0.8;
/** Situations embedded in one go. */
export const EMBED_TEXTS = 32;
/** Beyond this many vectors outside the graph an import helps to build it, so that its look for duplicates stays quick. */
const UNLINKED_MAX = 512;

export class PatternIntake {
  readonly #parts: Pick<StoreParts, 'tables' | 'embedder' | 'clock' | 'newId'>;
  readonly #scopes: PatternScopes;

  constructor(parts: Pick<StoreParts, 'tables' | 'embedder' | 'clock' | 'newId'>, scopes: PatternScopes) {
    this.#parts = parts;
    this.#scopes = scopes;
  }

  /** @throws CatalogueError `unavailable` when the embedder cannot be asked now */
  embed(patterns: readonly { situation: string }[]): Promise<SituationVectors> {
    return embedInPortions(this.#parts.embedder, patterns);
  }

  /**
   * Adds patterns, or merges each into its near-duplicate: all of them or none. One call at a time.
   * @param patterns cleaned, see {@link cleanAdded}
   * @param more rows that belong to the same transaction
   * @throws CatalogueError `conflict` when there is no room, `unavailable` when they cannot be written now
   */
  async take(
    scope: PatternScope,
    patterns: readonly AddedPattern[],
    vectors: SituationVectors,
    more: (outcomes: readonly MergedPattern[]) => RowWrite[] = () => [],
  ): Promise<MergedPattern[]> {
    const home = this.#scopes.of(scope);
    this.#scopes.checkRoom(home, patterns.length);
    const drafts = new Map<string, Draft>();
    const sources = new Map<string, { row: RowKey; value: SourceRow }>();
    const entered: number[] = [];
    const outcomes: MergedPattern[] = [];
    /** Vectors of whole situations, of those here and of those they were compared with. */
    const known = new Map(patterns.map(({ situation }, at) => [situation, vectors.whole[at]!]));
    try {
      let until = performance.now() + STRETCH_MS;
      for (const [at, pattern] of patterns.entries()) {
        if (performance.now() >= until) {
          await nextTick();
          until = performance.now() + STRETCH_MS;
        }
        while (home.index.unlinked > UNLINKED_MAX && home.index.tend(STRETCH_MS)) await nextTick();
        const vector = vectors.search[at]!;
        const duplicate = await this.#findDuplicate(home, vector, vectors.whole[at]!, drafts, known);
        outcomes.push(this.#decide(home, pattern, vector, duplicate, drafts, sources, entered));
      }
      await this.#write(drafts, sources, more(outcomes));
    } catch (thrown) {
      for (const id of entered) this.#scopes.forget(home, id);
      if (thrown instanceof CatalogueError) throw thrown;
      throw new CatalogueError('unavailable', 'The pattern store takes nothing now', { cause: thrown });
    }
    return outcomes;
  }

  /** Merges the pattern into one that is there, or enters it: in memory and in the drafts. */
  #decide(
    home: Scope,
    pattern: AddedPattern,
    vector: Float32Array,
    duplicate: Draft | null,
    drafts: Map<string, Draft>,
    sources: Map<string, { row: RowKey; value: SourceRow }>,
    entered: number[],
  ): MergedPattern {
    const { source_trace_id: trace, ...texts } = pattern;
    const { tables, clock, newId } = this.#parts;
    const row = trace === null ? null : sourceKey(home.scope, trace, pattern.situation);
    const sourceName = row?.join('/') ?? '';
    if (row !== null) {
      const before = sources.get(sourceName)?.value ?? tables.get<SourceRow>(PATTERN_SOURCES, row);
      // What came of it may have been removed since.
      const isThere =
        before !== undefined &&
        (drafts.has(before.pattern_id) ||
          tables.get(PATTERNS, patternKey(home.scope, before.pattern_id)) !== undefined);
      if (isThere) return { pattern_id: before.pattern_id, created: before.created };
    }
    const now = new Date(clock.wallMs()).toISOString();
    let outcome: MergedPattern;
    if (duplicate !== null) {
      const { pattern: known } = duplicate;
      const isNew = trace === null || !known.sources.includes(trace);
      const merged = {
        ...known,
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
      drafts.set(created.pattern_id, { pattern: created, vector });
      outcome = { pattern_id: created.pattern_id, created: true };
    }
    if (row !== null) sources.set(sourceName, { row, value: outcome });
    return outcome;
  }

  /** The stored or drafted pattern with nearly the same situation: among those that are found, by the whole of it. */
  async #findDuplicate(
    home: Scope,
    vector: Float32Array,
    whole: Float32Array,
    drafts: ReadonlyMap<string, Draft>,
    known: Map<string, Float32Array>,
  ): Promise<Draft | null> {
    let best: Draft | null = null;
    let bestCosine = SAME_SITUATION_COSINE;
    for (const { id } of home.index.search(vector, TWIN_CANDIDATES, undefined, TWIN_SEARCH_COSINE)) {
      const candidate = this.#draftOf(home, home.entries[id], drafts);
      if (candidate === null) continue;
      const { situation } = candidate.pattern;
      let other = known.get(situation);
      if (other === undefined) {
        [other] = await this.#parts.embedder.embed([situation]);
        known.set(situation, other!);
      }
      const cosine = cosineOf(whole, other!);
      if (cosine < bestCosine) continue;
      best = candidate;
      bestCosine = cosine;
    }
    return best;
  }

  #draftOf(home: Scope, entry: Entry | undefined, drafts: ReadonlyMap<string, Draft>): Draft | null {
    if (entry === undefined) return null;
    const draft = drafts.get(entry.pattern_id);
    if (draft !== undefined) return draft;
    const key = patternKey(home.scope, entry.pattern_id);
    const row = this.#parts.tables.get<PatternRow>(PATTERNS, key);
    return row === undefined ? null : { pattern: readPattern(key, row), vector: null };
  }

  async #write(
    drafts: ReadonlyMap<string, Draft>,
    sources: ReadonlyMap<string, { row: RowKey; value: SourceRow }>,
    more: readonly RowWrite[],
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
    await tables.transact((transaction) => {
      for (const write of writes) transaction.write(write);
    });
  }
}

/** A pattern as it is stored: bounded, and without secrets. */
export function cleanAdded({ source_trace_id, ...pattern }: AddedPattern): AddedPattern {
  return { ...cleanPattern(pattern), source_trace_id };
}

/** Rejects with what the embedder throws. */
export async function embedInPortions(
  embedder: Embedder,
  patterns: readonly { situation: string }[],
): Promise<SituationVectors> {
  const vectors: SituationVectors = { search: [], whole: [] };
  for (let at = 0; at < patterns.length; at += EMBED_TEXTS) {
    const situations = patterns.slice(at, at + EMBED_TEXTS).map(({ situation }) => situation);
    const { search, whole } = await embedSituations(embedder, situations);
    vectors.search.push(...search);
    vectors.whole.push(...whole);
  }
  return vectors;
}
