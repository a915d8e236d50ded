/**
 * Finds patterns in the scopes that a request may see, and ranks them. Actor thread; server threads use only the
 * ranking, for matches in shared indexes.
 */
import { modelFamily, type PatternScope, SAME_FAMILY_BOOST, TIERS } from '../../src/domain/pattern.ts';
import type { AcceptId, VectorIndex, VectorMatch } from '../../src/search/vector-index.ts';
import type { FoundMatches, RetrieveRequest } from './protocol.ts';
import type { Scope } from './scopes.ts';

/** The vectors of a query; null if the embedder is not available or not needed. */
export interface QueryVectors {
  present: Float32Array | null;
  /** Vector for patterns without a vector of the current embedder. */
  former: Float32Array | null;
}

/** A match in one scope. */
export interface Candidate {
  scope: PatternScope;
  pattern_id: string;
  similarity: VectorMatch['similarity'];
  /** Whether the pattern belongs to the model family that the request prefers. */
  is_preferred: boolean;
}

/**
 * How many more matches than `top_k` are requested in each scope, because some may not be on the disk yet, or may have
 * been removed.
 */
const SPARE_MATCHES = 4;

/** Searches scopes with the vectors of a query. @returns best first; more than requested if possible */
export function findPatterns(
  scopes: readonly Scope[],
  { present, former }: QueryVectors,
  request: RetrieveRequest,
): FoundMatches {
  const { min_similarity, failure_type } = request;
  const { wanted, family } = lookOf(request);
  const found: Candidate[] = [];
  const look = (scope: Scope, index: VectorIndex, vector: Float32Array, accept?: AcceptId) => {
    for (const { id, similarity } of index.search(vector, wanted, accept, min_similarity)) {
      const entry = scope.entries[id];
      if (entry === undefined) continue;
      const is_preferred = family !== '' && entry.family === family;
      found.push({ scope: scope.scope, pattern_id: entry.pattern_id, similarity, is_preferred });
    }
  };
  for (const scope of scopes) {
    const accept =
      failure_type === null ? undefined : (id: number) => scope.entries[id]?.failure_type === failure_type;
    if (present !== null) look(scope, scope.index, present, accept);
    if (former !== null && scope.former !== null) look(scope, scope.former, former, accept);
  }
  return rankFound(found, request);
}

/** Computes the number of matches to find in each scope, and the preferred family; '': none. */
export function lookOf({ top_k, model }: RetrieveRequest): { wanted: number; family: string } {
  const family = model === null ? '' : modelFamily(model);
  // A pattern of the preferred family may move up from a lower rank.
  return { wanted: (family === '' ? top_k : 2 * top_k + 16) + SPARE_MATCHES, family };
}

/** Ranks the matches of all scopes. @returns best first; more than requested if possible */
export function rankFound(found: Candidate[], { top_k }: RetrieveRequest): FoundMatches {
  // An organization may have many projects, and each contributes its matches.
  const ranked = found.sort(compareFound).slice(0, 2 * top_k + SPARE_MATCHES);
  const places = new Map<PatternScope, number>();
  const matches = ranked.map(({ scope, pattern_id, similarity }) => {
    const place = places.get(scope) ?? places.size;
    places.set(scope, place);
    return { scope: place, pattern_id, similarity };
  });
  return { scopes: [...places.keys()], matches };
}

/** Orders matches: best first. Equal matches are ordered by tier, and then by age, the older one first. */
function compareFound(a: Candidate, b: Candidate): number {
  return (
    rankOf(b) - rankOf(a) ||
    b.similarity - a.similarity ||
    TIERS.indexOf(a.scope.tier) - TIERS.indexOf(b.scope.tier) ||
    (a.pattern_id < b.pattern_id ? -1 : 1)
  );
}

function rankOf({ similarity, is_preferred }: Candidate): number {
  return similarity + (is_preferred ? SAME_FAMILY_BOOST : 0);
}
