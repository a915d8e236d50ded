/**
 * Indexes that threads share, by names. One thread makes and changes them; others search them without a message, and get the
 * same. A reader never waits: where an index is being changed it hears so, and asks the index's thread instead. What is
 * shared goes with the thread that made it. Any thread; one of them writes.
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

/** Vectors of one scope that a request's thread compares one by one, about 0.15 µs each. With more, the index's thread searches. */
const SHARED_SEARCH_COMPARED = 4_096;

/** One vector that was found. */
interface SharedMatch {
  name: string;
  similarity: number;
  /** It is of the family that was asked for. */
  is_preferred: boolean;
}

/** Where an index is, and the vectors that it must hold. */
interface SharedQuery {
  name: string;
  /** Of length 1. */
  vector: Float32Array;
  k: number;
  min_similarity: number;
  /** null: any. */
  kind: string | null;
  /** Empty: none. */
  family: string;
}

/** The shared indexes of a store, on the thread that changes them. */
export class IndexCatalog {
  readonly #engine: GraphEngine;
  readonly #handle: CatalogHandle;

  /** @param key what the process finds it by; one that was opened under it before is found no more */
  constructor(key: string, engine = loadGraphEngine()) {
    this.#engine = engine;
    this.#handle = engine.openCatalog(key);
  }

  /** @param group of indexes that are listed together; empty: none */
  share(name: string, group: string, dimensions: number): SharedIndex {
    const handle = this.#engine.shareIndex(this.#handle, name, group, dimensions, BLOCK_BITS);
    return new SharedIndex(this.#engine, handle);
  }

  /** From now on other threads may search. @param vectorsId names the vectors that the indexes hold */
  serve(vectorsId: string): void {
    this.#engine.serveCatalog(this.#handle, vectorsId);
  }

  /** From now on none does. */
  close(): void {
    this.#engine.closeCatalog(this.#handle);
  }
}

/** @returns null without the addon: other threads do not search then */
export function openCatalog(key: string): IndexCatalog | null {
  try {
    return new IndexCatalog(key);
  } catch {
    // Every search compares with every vector there, and the operator is told so.
    return null;
  }
}

/** The same from another thread. Every null means: ask the index's thread. */
export class SharedIndexes {
  readonly #engine: SharedSearches;
  readonly #key: string;
  readonly #vectorsId: string;
  #similarities = new Float64Array(64);
  #preferred = new Uint8Array(64);

  /**
   * @param key of the catalog
   * @param vectorsId names the vectors that this thread searches with
   */
  constructor(key: string, vectorsId: string, engine: SharedSearches = loadGraphEngine()) {
    this.#engine = engine;
    this.#key = key;
    this.#vectorsId = vectorsId;
  }

  /** The names of those that hold something, of the named ones and of the group's. */
  list(names: readonly string[], group = ''): string[] | null {
    return this.#engine.listShared(this.#key, this.#vectorsId, names, group);
  }

  /** @returns best first, as `VectorIndex.search` has them */
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
