/** Finds patterns in the scopes that a request may see, and ranks them. Actor thread; server threads rank what they find in shared indexes. */
import { modelFamily, type PatternScope, SAME_FAMILY_BOOST, TIERS } from '../../src/domain/pattern.ts';
import type { AcceptId, VectorIndex, VectorMatch } from '../../src/search/vector-index.ts';
import type { FoundMatches, RetrieveRequest } from './protocol.ts';
import type { Scope } from './scopes.ts';

/** The vectors of a query; null if the embedder is not available or not needed. */
export interface QueryVectors {
  present: Float32Array | null;
  /** For patterns without a vector of the present embedder. */
  former: Float32Array | null;
}

/** What was found in one scope. */
export interface Candidate {
  scope: PatternScope;
  pattern_id: string;
  similarity: VectorMatch['similarity'];
  /** It is of the family that the request prefers. */
  is_preferred: boolean;
}

/** Found in each scope beyond what is wanted, for those that are not on the disk yet, or not any more. */
const SPARE_MATCHES = 4;

/** @returns best first, more than are wanted where there are more */
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

/** How many are looked for in each scope, and the family that goes first; empty: none. */
export function lookOf({ top_k, model }: RetrieveRequest): { wanted: number; family: string } {
  const family = model === null ? '' : modelFamily(model);
  // A preferred one may come from a little further down.
  return { wanted: (family === '' ? top_k : 2 * top_k + 16) + SPARE_MATCHES, family };
}

/** @returns best first, more than are wanted where there are more */
export function rankFound(found: Candidate[], { top_k }: RetrieveRequest): FoundMatches {
  // An organization may have very many projects, and each brings what is wanted.
  const ranked = found.sort(compareFound).slice(0, 2 * top_k + SPARE_MATCHES);
  const places = new Map<PatternScope, number>();
  const matches = ranked.map(({ scope, pattern_id, similarity }) => {
    const place = places.get(scope) ?? places.size;
    places.set(scope, place);
    return { scope: place, pattern_id, similarity };
  });
  return { scopes: [...places.keys()], matches };
}

/** Best first; the nearer tier first among equals, then the older pattern. */
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
