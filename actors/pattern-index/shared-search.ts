/**
 * Retrieves patterns on the thread that handles the request. Embeds the text over its own channel to the model, and
 * searches the indexes that the pattern index shares. Sends the request to the pattern index instead if the store is
 * loading or embedding again, if an index is being changed, or if the scopes are so large or so many that other
 * requests of the thread would wait. Server threads.
 */

import { EMBEDDINGS_REMEMBERED, RememberedEmbedder } from '../../src/domain/remembered-embedder.ts';
import type { TextEmbedder } from '../../src/domain/situation-vectors.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { SharedIndexes } from '../../src/search/index-catalog.ts';
import { TickQueue } from '../../src/std/tick-queue.ts';
import { RETRIEVE_DEADLINE_MS } from './client.ts';
import type { FoundMatches, RetrieveRequest } from './protocol.ts';
import { groupOf, namedScopes, nameScope, parseScope } from './scope-names.ts';
import { type Candidate, lookOf, rankFound } from './search.ts';

/** Maximum number of scopes that are searched on the request's thread. Beyond that, the pattern index searches. */
const SHARED_SEARCH_SCOPES = 16;
/** Maximum number of searches, about 0.2 ms each, before the thread handles its sockets again. */
const SHARED_SEARCHES_A_TICK = 4;

interface SharedSearchParts {
  /** The shared indexes, for vectors of the embedder. */
  indexes: SharedIndexes;
  embedder: TextEmbedder;
  /** The pattern index itself. */
  index: { retrieve(request: RetrieveRequest): Promise<FoundMatches> };
}

export class SharedSearch {
  readonly #index: SharedSearchParts['index'];
  readonly #indexes: SharedIndexes;
  readonly #queries: RememberedEmbedder;
  /** Vectors arrive in batches. Other work of the thread must not wait for the searches of a whole batch. */
  readonly #ticks = new TickQueue(SHARED_SEARCHES_A_TICK);
  #searched = 0;
  #asked = 0;

  constructor({ indexes, embedder, index }: SharedSearchParts) {
    this.#index = index;
    this.#indexes = indexes;
    this.#queries = new RememberedEmbedder(embedder, EMBEDDINGS_REMEMBERED);
  }

  /** Number of retrievals that this thread answered, and of those that it sent to the pattern index. */
  get counts(): { searched: number; asked: number } {
    return { searched: this.#searched, asked: this.#asked };
  }

  /**
   * Searches for patterns, on this thread if possible, otherwise through the pattern index.
   * @throws CatalogueError `unavailable` if the index or the embedder does not answer
   */
  async retrieve(request: RetrieveRequest): Promise<FoundMatches> {
    const names = this.#indexes.list(namedScopes(request).map(nameScope), groupOf(request));
    if (names === null || names.length > SHARED_SEARCH_SCOPES) return this.#ask(request);
    if (names.length === 0) {
      this.#searched++;
      return { scopes: [], matches: [] };
    }
    const vector = await this.#embed(request.context);
    await this.#ticks.next();
    const found = this.#search(names, vector, request);
    if (found === null) return this.#ask({ ...request, vector });
    this.#searched++;
    return rankFound(found, request);
  }

  #ask(request: RetrieveRequest): Promise<FoundMatches> {
    this.#asked++;
    return this.#index.retrieve(request);
  }

  /** Searches shared indexes; null if one of them cannot be searched on this thread now. */
  #search(names: readonly string[], vector: Float32Array, request: RetrieveRequest): Candidate[] | null {
    const { wanted, family } = lookOf(request);
    const { min_similarity, failure_type: kind } = request;
    const candidates: Candidate[] = [];
    for (const name of names) {
      const found = this.#indexes.search({ name, vector, k: wanted, min_similarity, kind, family });
      if (found === null) return null;
      const scope = parseScope(name);
      for (const { name: pattern_id, similarity, is_preferred } of found)
        candidates.push({ scope, pattern_id, similarity, is_preferred });
    }
    return candidates;
  }

  async #embed(text: string): Promise<Float32Array> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error('the model took too long')), RETRIEVE_DEADLINE_MS);
    });
    try {
      return await Promise.race([this.#queries.embedOne(text), late]);
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    } finally {
      clearTimeout(timer);
    }
  }
}
