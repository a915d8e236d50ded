/**
 * Indexes that threads share, by name. One thread creates and changes them; other threads search them directly, with
 * the same results. A reader never waits. While an index is being changed, a search returns null, and the reader sends
 * its request to the index's thread instead. Shared indexes are freed with the thread that made them. Any thread; only
 * one thread writes.
 */
import {
  type CatalogHandle,
  type GraphEngine,
  loadGraphEngine,
  type SharedSearches,
} from '../../native/graph-engine.ts';
import { BLOCK_BITS } from './exact-index.ts';
import { planSearch, projectorOf } from './hnsw-index.ts';
import { SharedIndex } from './shared-index.ts';
import { checkVector } from './vector-check.ts';

/**
 * Maximum number of vectors of a scope that a request's thread compares one by one, about 0.2 µs each. For more
 * vectors, the index's thread searches.
 */
const SHARED_SEARCH_COMPARED = 4_096;

/** One vector that was found. */
interface SharedMatch {
  name: string;
  similarity: number;
  /** Whether the match belongs to the requested family. */
  is_preferred: boolean;
}

/** A search in one index, with its filters. */
interface SharedQuery {
  name: string;
  /** A vector of length 1. */
  vector: Float32Array;
  k: number;
  min_similarity: number;
  /** null: any. */
  kind: string | null;
  /** Matches of this family are marked as preferred; empty: none is. */
  family: string;
}

/** The shared indexes of a store, on the thread that changes them. */
export class IndexCatalog {
  readonly #engine: GraphEngine;
  readonly #handle: CatalogHandle;

  /**
   * @param key the name by which other threads find the catalog; it replaces an earlier catalog with the same name
   */
  constructor(key: string, engine = loadGraphEngine()) {
    this.#engine = engine;
    this.#handle = engine.openCatalog(key);
  }

  /**
   * Adds an empty index to the catalog.
   * @param group name of a group of indexes that are listed together; empty for no group
   */
  share(name: string, group: string, dimensions: number): SharedIndex {
    const handle = this.#engine.shareIndex(this.#handle, name, group, dimensions, BLOCK_BITS);
    return new SharedIndex(this.#engine, handle);
  }

  /**
   * Allows other threads to search the indexes.
   * @param vectorsId names the vectors in the indexes
   */
  serve(vectorsId: string): void {
    this.#engine.serveCatalog(this.#handle, vectorsId);
  }

  /** Closes the catalog, after which no thread finds it. */
  close(): void {
    this.#engine.closeCatalog(this.#handle);
  }
}

/** Opens a catalog. Returns null if the addon is missing: then other threads cannot search. */
export function openCatalog(key: string): IndexCatalog | null {
  try {
    return new IndexCatalog(key);
  } catch {
    // Without the addon, every search compares with every vector, and the operator was informed.
    return null;
  }
}

/** The shared indexes, on other threads. When a method returns null, the caller must ask the index's thread. */
export class SharedIndexes {
  readonly #engine: SharedSearches;
  readonly #key: string;
  readonly #vectorsId: string;
  #similarities = new Float64Array(64);
  #preferred = new Uint8Array(64);

  /**
   * @param key the catalog's name
   * @param vectorsId names the vectors with which this thread searches
   */
  constructor(key: string, vectorsId: string, engine: SharedSearches = loadGraphEngine()) {
    this.#engine = engine;
    this.#key = key;
    this.#vectorsId = vectorsId;
  }

  /** Lists the names, among the given ones and those of the group, whose indexes are not empty. */
  list(names: readonly string[], group = ''): string[] | null {
    return this.#engine.listShared(this.#key, this.#vectorsId, names, group);
  }

  /**
   * Searches an index.
   * @returns best first, like `VectorIndex.search`; null if the index's thread must search
   */
  search({ name, vector, k, min_similarity, kind, family }: SharedQuery): SharedMatch[] | null {
    if (k > this.#similarities.length) {
      this.#similarities = new Float64Array(k);
      this.#preferred = new Uint8Array(k);
    }
    checkVector(vector, vector.length);
    const { looks, margins, compared, error } = planSearch(vector.length, k, kind !== null);
    const names = this.#engine.searchShared(
      this.#key,
      this.#vectorsId,
      name,
      vector,
      projectorOf(vector.length)(vector),
      k,
      Uint32Array.from(looks),
      Float64Array.from(margins),
      compared,
      error,
      min_similarity,
      SHARED_SEARCH_COMPARED,
      kind,
      family,
      this.#similarities,
      this.#preferred,
    );
    if (names === null) return null;
    return names.map((found, at) => ({
      name: found,
      similarity: this.#similarities[at]!,
      is_preferred: this.#preferred[at] === 1,
    }));
  }
}
