/** Finds patterns in the scopes that a request may see, and ranks them. Actor thread. */
import { modelFamily, SAME_FAMILY_BOOST, TIERS } from '../../src/domain/pattern.ts';
import type { AcceptId, VectorIndex, VectorMatch } from '../../src/search/vector-index.ts';
import type { FoundMatches, RetrieveRequest } from './protocol.ts';
import type { Entry, Scope } from './scopes.ts';

/** The vectors of what is asked for; null where the embedder cannot be asked, or need not. */
export interface QueryVectors {
  present: Float32Array | null;
  /** For patterns that have no vector of the present embedder yet. */
  former: Float32Array | null;
}

interface RankedMatch {
  scope: Scope;
  entry: Entry;
  similarity: VectorMatch['similarity'];
  /** With the preference of a model. */
  rank: number;
}

/** Found in each scope beyond what is wanted, for those that are not on the disk yet, or not any more. */
const SPARE_MATCHES = 4;

/** @returns best first, more than are wanted where there are more */
export function findPatterns(
  scopes: readonly Scope[],
  vectors: QueryVectors,
  request: RetrieveRequest,
): FoundMatches {
  // An organization may have very many projects, and each brings what is wanted.
  const ranked = rankMatches(scopes, vectors, request).slice(0, 2 * request.top_k + SPARE_MATCHES);
  const places = new Map<Scope, number>();
  const matches = ranked.map(({ scope, entry, similarity }) => {
    const place = places.get(scope) ?? places.size;
    places.set(scope, place);
    return { scope: place, pattern_id: entry.pattern_id, similarity };
  });
  return { scopes: [...places.keys()].map(({ scope }) => scope), matches };
}

/** Best first. */
function rankMatches(
  scopes: readonly Scope[],
  { present, former }: QueryVectors,
  { top_k, min_similarity, failure_type, model }: RetrieveRequest,
): RankedMatch[] {
  const family = model === null ? '' : modelFamily(model);
  // A preferred one may come from a little further down.
  const wanted = (family === '' ? top_k : 2 * top_k + 16) + SPARE_MATCHES;
  const ranked: RankedMatch[] = [];
  const look = (scope: Scope, index: VectorIndex, vector: Float32Array, accept?: AcceptId) => {
    for (const { id, similarity } of index.search(vector, wanted, accept, min_similarity)) {
      const entry = scope.entries[id];
      if (entry === undefined) continue;
      const isPreferred = family !== '' && entry.family === family;
      ranked.push({ scope, entry, similarity, rank: similarity + (isPreferred ? SAME_FAMILY_BOOST : 0) });
    }
  };
  for (const scope of scopes) {
    const accept =
      failure_type === null ? undefined : (id: number) => scope.entries[id]?.failure_type === failure_type;
    if (present !== null) look(scope, scope.index, present, accept);
    if (former !== null && scope.former !== null) look(scope, scope.former, former, accept);
  }
  return ranked.sort(compareMatches);
}

/** Best first; the nearer tier first among equals, then the older pattern. */
function compareMatches(a: RankedMatch, b: RankedMatch): number {
  return (
    b.rank - a.rank ||
    b.similarity - a.similarity ||
    TIERS.indexOf(a.scope.scope.tier) - TIERS.indexOf(b.scope.scope.tier) ||
    (a.entry.pattern_id < b.entry.pattern_id ? -1 : 1)
  );
}
