/**
 * The patterns in memory. Each scope (a project, an organization's commons, the universal patterns) has its own index,
 * so a search cannot find another tenant's pattern. Texts stay on the disk. A pattern takes about 600 bytes of memory.
 * Its vector takes 1.2 bytes per dimension, and another half byte per dimension when it is in a graph. Actor thread.
 */
import {
  modelFamily,
  PATTERNS_PER_SCOPE,
  type Pattern,
  type PatternScope,
} from '../../src/domain/pattern.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { SharedIndex } from '../../src/search/shared-index.ts';
import type { VectorIndex } from '../../src/search/vector-index.ts';
import type { RetrieveRequest } from './protocol.ts';
import { groupOf, namedScopes, nameScope } from './scope-names.ts';

/** Maximum number of patterns of all scopes together. `checkRoom` refuses further ones. */
const PATTERNS_MAX = 500_000;

/** A pattern in memory. Its position in the list is its id in the index. */
export interface Entry {
  pattern_id: string;
  failure_type: string;
  family: string;
}

export interface Scope {
  scope: PatternScope;
  entries: (Entry | undefined)[];
  /** Number of entries that were not removed. */
  size: number;
  index: VectorIndex;
  /** The part of the index that other threads search; null: not shared. */
  shared: SharedIndex | null;
  /** Entries whose situation has no vector of the current embedder yet. */
  unembedded: Set<number>;
  /** Vectors of another embedder for the entries in `unembedded`; null if there is no such embedder or no such entry. */
  former: VectorIndex | null;
  /**
   * Whether patterns were removed since the start. If so, the graph contains information about their vectors and must
   * not be saved.
   */
  has_removed: boolean;
}

/** An index, and its shared part. */
export interface ScopeIndex {
  index: VectorIndex;
  shared: SharedIndex | null;
}

export class PatternScopes {
  readonly #makeIndex: (scope: PatternScope) => ScopeIndex;
  readonly #onVector: (home: Scope) => void;
  readonly #scopes = new Map<string, Scope>();
  /** Scopes of e1 by organization. */
  readonly #projects = new Map<string, Set<Scope>>();
  #patterns = 0;
  #unembedded = 0;

  /** @param onVector called with the scope after a vector was added to its index */
  constructor(makeIndex: (scope: PatternScope) => ScopeIndex, onVector: (home: Scope) => void) {
    this.#makeIndex = makeIndex;
    this.#onVector = onVector;
  }

  /** Number of scopes in memory. */
  get size(): number {
    return this.#scopes.size;
  }

  /** Number of patterns of all scopes. */
  get patterns(): number {
    return this.#patterns;
  }

  /** Number of patterns without a vector of the current embedder. */
  get unembedded(): number {
    return this.#unembedded;
  }

  all(): Iterable<Scope> {
    return this.#scopes.values();
  }

  /** Returns the scope, and creates it if it is missing. */
  of(scope: PatternScope): Scope {
    const name = nameScope(scope);
    let home = this.#scopes.get(name);
    if (home === undefined) {
      home = {
        scope,
        ...this.#makeIndex(scope),
        entries: [],
        size: 0,
        unembedded: new Set(),
        former: null,
        has_removed: false,
      };
      this.#scopes.set(name, home);
      if (scope.tier === 'e1') {
        const projects = this.#projects.get(scope.org_id);
        if (projects === undefined) this.#projects.set(scope.org_id, new Set([home]));
        else projects.add(home);
      }
    }
    return home;
  }

  /** Lists the scopes with patterns that the request may search. */
  visible(request: RetrieveRequest): Scope[] {
    const scopes = namedScopes(request).map((scope) => this.#scopes.get(nameScope(scope)));
    if (groupOf(request) !== '') scopes.push(...(this.#projects.get(request.org_id) ?? []));
    return scopes.filter((scope) => scope !== undefined && scope.size > 0) as Scope[];
  }

  /** Checks the limits on patterns. @throws CatalogueError `conflict` if `count` further patterns would exceed one */
  checkRoom(home: Scope, count: number): void {
    if (home.size + count > PATTERNS_PER_SCOPE)
      throw new CatalogueError('conflict', `There is room for ${PATTERNS_PER_SCOPE} patterns in one scope`);
    if (this.#patterns + count > PATTERNS_MAX)
      throw new CatalogueError('conflict', `The store has room for ${PATTERNS_MAX} patterns`);
  }

  /**
   * Adds a pattern in memory.
   * @param vector undefined: not embedded yet
   * @returns the pattern's id in its index
   */
  enter(home: Scope, pattern: Pattern, vector: Float32Array | undefined): number {
    const { pattern_id, failure_type, model } = pattern;
    const id = home.entries.length;
    const family = intern(modelFamily(model));
    home.entries.push({ pattern_id, failure_type: intern(failure_type), family });
    home.shared?.describe(id, { name: pattern_id, kind: failure_type, family });
    home.size++;
    this.#patterns++;
    if (vector === undefined) {
      home.unembedded.add(id);
      this.#unembedded++;
    } else {
      home.index.add(id, vector);
      this.#onVector(home);
    }
    return id;
  }

  /** Sets the vector of an entry that had none. Has no effect if the entry was removed or has a vector. */
  give(home: Scope, id: number, vector: Float32Array): void {
    if (!home.unembedded.delete(id)) return;
    this.#unembedded--;
    home.index.add(id, vector);
    home.former?.remove(id);
    if (home.unembedded.size === 0) home.former = null;
    this.#onVector(home);
  }

  /** Removes an entry from memory. Has no effect if the entry was removed. */
  forget(home: Scope, id: number): void {
    if (home.entries[id] === undefined) return;
    home.entries[id] = undefined;
    home.index.remove(id);
    home.shared?.forget(id);
    home.former?.remove(id);
    home.size--;
    this.#patterns--;
    if (home.unembedded.delete(id)) this.#unembedded--;
    if (home.unembedded.size === 0) home.former = null;
  }

  /** Removes the patterns with these names from memory. */
  forgetAll(home: Scope, patternIds: readonly string[]): void {
    const gone = new Set(patternIds);
    if (gone.size === 0) return;
    for (const [id, entry] of home.entries.entries())
      if (entry !== undefined && gone.has(entry.pattern_id)) this.forget(home, id);
  }
}

/** Failure types and model families, so that each text is in memory once for all patterns. Emptied at NAMES_MAX. */
const names = new Map<string, string>();
const NAMES_MAX = 10_000;

function intern(name: string): string {
  const known = names.get(name);
  if (known !== undefined) return known;
  if (names.size >= NAMES_MAX) names.clear();
  names.set(name, name);
  return name;
}
