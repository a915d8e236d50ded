/**
 * Follows other boxes: reads the rows of patterns that they changed (new patterns, new vectors and removals), and
 * applies these changes in memory. Must not run at the same time as another write, such as an intake. Actor thread.
 */
import type { PatternScope, Tier } from '../../src/domain/pattern.ts';
import {
  decodeVector,
  digest,
  PATTERN_VECTORS,
  PATTERNS,
  type PatternRow,
  patternKey,
  readPattern,
  vectorKey,
} from '../../src/domain/pattern-rows.ts';
import { situationVectorsId } from '../../src/domain/situation-vectors.ts';
import type { RowKey } from '../../src/runtime/protocol.ts';
import type { GraphKeeper } from './graph-keeper.ts';
import { nameScope } from './scope-names.ts';
import type { PatternScopes, Scope } from './scopes.ts';
import { nextTick } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

/** Maximum number of rows read at a time. */
const READ_ROWS = 200;

/** A changed row of a pattern. */
export interface ChangedPattern {
  /** [tier, org_id, project_id, pattern_id] */
  key: RowKey;
  /** The embedder of the changed vector, by its name in the keys; null: the row is the pattern itself. */
  embedder: string | null;
}

interface FollowParts {
  parts: Pick<StoreParts, 'tables' | 'embedder'>;
  scopes: PatternScopes;
  keeper: GraphKeeper;
}

/** Changes of one scope. */
interface ScopeChanges {
  scope: PatternScope;
  /** By pattern: whether its vector changed, too. */
  patterns: Map<string, boolean>;
}

/** Reads changed rows, and applies them in memory. */
export async function followPatterns(own: FollowParts, changed: readonly ChangedPattern[]): Promise<void> {
  const ours = digest(situationVectorsId(own.parts.embedder));
  const changes = new Map<string, ScopeChanges>();
  for (const { key, embedder } of changed) {
    if (embedder !== null && embedder !== ours) continue;
    const { scope, pattern_id } = placeOf(key);
    const name = nameScope(scope);
    const known = changes.get(name) ?? { scope, patterns: new Map<string, boolean>() };
    changes.set(name, known);
    known.patterns.set(pattern_id, embedder !== null || known.patterns.get(pattern_id) === true);
  }
  for (const { scope, patterns } of changes.values()) {
    const home = own.scopes.of(scope);
    const ids = idsOf(home, patterns);
    for (const [pattern_id, hasVector] of patterns)
      await followOne(own, home, pattern_id, ids.get(pattern_id), hasVector);
    await nextTick();
  }
}

/**
 * Brings all patterns in memory up to date with the rows, except changed vectors of patterns that already have a
 * vector.
 */
export async function followAll(own: FollowParts): Promise<void> {
  const { parts, scopes } = own;
  const ids = new Map([...scopes.all()].map((home) => [home, idsOf(home, null)]));
  let after: RowKey | undefined;
  for (;;) {
    const range = { prefix: [], limit: READ_ROWS };
    const rows = [...parts.tables.range(PATTERNS, after === undefined ? range : { ...range, after })];
    for (const { row } of rows) {
      const { scope, pattern_id } = placeOf(row);
      const home = scopes.of(scope);
      await followOne(own, home, pattern_id, ids.get(home)?.get(pattern_id), false);
      ids.get(home)?.delete(pattern_id);
    }
    if (rows.length < READ_ROWS) break;
    after = rows.at(-1)!.row;
    await nextTick();
  }
  for (const [home, left] of ids)
    for (const [pattern_id, id] of left) await followOne(own, home, pattern_id, id, false);
}

/**
 * Brings one pattern in memory up to date with its rows.
 * @param id the pattern's id in the scope's index; undefined: not in memory
 * @param hasVector whether the pattern's vector has changed
 */
async function followOne(
  { parts: { tables, embedder }, scopes, keeper }: FollowParts,
  home: Scope,
  patternId: string,
  id: number | undefined,
  hasVector: boolean,
): Promise<void> {
  const key = patternKey(home.scope, patternId);
  const row = tables.get<PatternRow>(PATTERNS, key);
  const forget = async (known: number) => {
    // A saved graph contains traces of the vector.
    await keeper.discard(home);
    scopes.forget(home, known);
  };
  if (row === undefined) {
    if (id !== undefined) await forget(id);
    return;
  }
  // The texts of a known pattern are read from its row.
  const isWaiting = id !== undefined && home.unembedded.has(id);
  if (id !== undefined && !hasVector && !isWaiting) return;
  const bytes = tables.get(PATTERN_VECTORS, vectorKey(situationVectorsId(embedder), home.scope, patternId));
  const vector = decodeVector(bytes, embedder.dimensions);
  if (id !== undefined) {
    if (vector === undefined) return;
    if (isWaiting) return scopes.give(home, id, vector);
    await forget(id);
  }
  scopes.enter(home, readPattern(key, row), vector);
}

function placeOf(key: RowKey): { scope: PatternScope; pattern_id: string } {
  const [tier, org_id, project_id, pattern_id] = key as readonly [Tier, string, string, string];
  return { scope: { tier, org_id, project_id }, pattern_id };
}

/**
 * Maps the names of a scope's patterns (`pattern_id`) to their ids in the scope's index.
 * @param wanted the names to include; null: all patterns
 */
function idsOf(home: Scope, wanted: ReadonlyMap<string, unknown> | null): Map<string, number> {
  const ids = new Map<string, number>();
  for (const [id, entry] of home.entries.entries())
    if (entry !== undefined && (wanted === null || wanted.has(entry.pattern_id)))
      ids.set(entry.pattern_id, id);
  return ids;
}
