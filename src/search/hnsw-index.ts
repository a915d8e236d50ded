/**
 * The approximate vector index: a hierarchical navigable small-world graph (Malkov and Yashunin, arXiv 1603.09320) by
 * hnswlib. An exact index beside it holds every vector: it answers as long as the set is small, looks at what the graph
 * does not hold yet, decides when a filter leaves the graph too few, and is what a graph is made of again.
 * Any thread; each index in one, and the native handle never leaves it.
 *
 * The graph holds no more than 256 dimensions of a vector (projection.ts), which makes it quick to build and to walk and
 * keeps it small; what it finds is compared whole, so similarities are exact.
 *
 * Adding to a graph costs some 0.3 ms a vector, so `add` only notes it and `tend` does it: until then such vectors are
 * compared one by one. Memory: 4 bytes a dimension, 1 KB at most for the graph's copy, and some 400 bytes a vector.
 *
 * Build parameters: `bench/retrieve.ts` prints what they cost and what they find.
 */
import { createRequire } from 'node:module';
import { arch, endianness } from 'node:os';
import type { HierarchicalNSW } from 'hnswlib-node';
import { loadWideFunctions } from '../../native/load-functions.ts';
import { BestMatches } from './best-matches.ts';
import { ExactIndex } from './exact-index.ts';
import { PROJECTION_NAME, Projection } from './projection.ts';
import type { AcceptId, SavableIndex, VectorMatch } from './vector-index.ts';

type Hnswlib = typeof import('hnswlib-node');

/** Neighbours of a point; twice as many on the ground floor. */
const M = 16;
/** Candidates looked at to find a new point's neighbours. */
const EF_CONSTRUCTION = 64;
/** Candidates that a search keeps. */
const EF_SEARCH = 128;
/** Candidates that are compared whole, and so many times as are wanted. */
const COMPARED_MIN = 64;
const COMPARED_FACTOR = 4;
/** Dimensions of the graph. */
const GRAPH_DIMENSIONS = 256;
/** How far a projected cosine may be from the real one: three times its usual error. */
const PROJECTION_ERROR = 3 / Math.sqrt(GRAPH_DIMENSIONS);
/** Fetched for each result that is wanted when a filter will drop some. */
const FILTERED_FACTOR = 8;
/** The graph's random levels: the same points in the same order give the same graph. */
const SEED = 100;
/** Below this many vectors of few dimensions comparing with all is as quick; of more dimensions, below fewer. */
export const GRAPH_SIZE_MIN = 2_000;
/** In the place of an id that a graph still holds and nobody looks for. */
const NO_ID = -1;
/** Removed points make searches slower: beyond this share of the graph it is made anew. */
const REMOVED_SHARE_MAX = 0.3;
/** Points added between two looks at the clock. */
const TEND_STEP = 4;
/** Links (4 bytes each, 2M on the ground floor and about one level more), label, lock and list heads of one point. */
const GRAPH_BYTES = 4 * (2 * M + 1) + 4 * (M + 1) + 8 + 40 + 64;

export class HnswIndex implements SavableIndex {
  readonly dimensions: number;
  readonly graphKind: string;
  readonly #library: Hnswlib;
  readonly #exact: ExactIndex;
  /** null: vectors go into the graph as they are. */
  #projection: Projection | null = null;
  readonly #graphDimensions: number;
  readonly #sizeMin: number;
  #graph: HierarchicalNSW | null = null;
  #capacity = 0;
  /** Labels in the graph that are found. A label is never used twice in one graph. */
  readonly #labels = new Map<number, number>();
  /** By label; what was removed since stays and is marked in the graph. */
  #idOf: number[] = [];
  /** In the exact index and not in the graph. */
  readonly #pending = new Set<number>();
  /** A file is being written or read: the graph must not grow. */
  #isFrozen = false;

  constructor(library: Hnswlib, dimensions: number) {
    this.#library = library;
    this.#exact = new ExactIndex(dimensions);
    this.dimensions = dimensions;
    this.#graphDimensions = Math.min(dimensions, GRAPH_DIMENSIONS);
    this.graphKind = `hnswlib ${arch()} ${endianness()} ip ${this.#graphDimensions} of ${dimensions} by ${PROJECTION_NAME} M${M} ef${EF_CONSTRUCTION}`;
    this.#sizeMin = Math.ceil((GRAPH_SIZE_MIN * this.#graphDimensions) / dimensions);
  }

  get size(): number {
    return this.#exact.size;
  }

  get bytes(): number {
    const points = this.#capacity * (4 * this.#graphDimensions + GRAPH_BYTES);
    return this.#exact.bytes + points + this.#labels.size * 60 + this.#idOf.length * 8;
  }

  get savable(): SavableIndex {
    return this;
  }

  get unlinked(): number {
    return this.#needsGraph() ? this.#pending.size : 0;
  }

  add(id: number, vector: Float32Array): void {
    this.#exact.add(id, vector);
    this.#unlink(id);
    this.#pending.add(id);
  }

  remove(id: number): boolean {
    if (!this.#exact.remove(id)) return false;
    this.#pending.delete(id);
    this.#unlink(id);
    return true;
  }

  has(id: number): boolean {
    return this.#exact.has(id);
  }

  get(id: number): Float32Array | undefined {
    return this.#exact.get(id);
  }

  search(vector: Float32Array, k: number, accept?: AcceptId, minSimilarity = -Infinity): VectorMatch[] {
    // Half of it compared one by one is more work than it saves.
    if (this.#graph === null || this.#pending.size > this.size / 2)
      return this.#exact.search(vector, k, accept, minSimilarity);
    if (vector.length !== this.dimensions)
      throw new RangeError(`a vector of ${vector.length} dimensions where ${this.dimensions} are expected`);
    if (k <= 0) return [];
    const wanted = Math.min(this.#labels.size, this.#countCandidates(k, accept !== undefined));
    const near = this.#searchGraph(this.#graph, vector, wanted);
    const ids = near.map(({ id }) => id);
    // Compared whole: the graph may hold fewer dimensions.
    const found = this.#exact.searchAmong(vector, ids, k, accept);
    if (found.length < k && !this.#hasSeenEnough(near, wanted, minSimilarity))
      return this.#exact.search(vector, k, accept, minSimilarity);
    const best = new BestMatches(k, minSimilarity);
    for (const { id, similarity } of found) best.offer(id, similarity);
    if (this.#pending.size > 0) {
      for (const match of this.#exact.searchAmong(vector, this.#pending, k, accept, minSimilarity))
        best.offer(match.id, match.similarity);
    }
    return best.take();
  }

  tend(budgetMs: number): boolean {
    if (this.#isFrozen || !this.#needsGraph()) return false;
    if (this.#graph !== null && this.#isWorn()) this.#discardGraph();
    if (this.#pending.size === 0) return false;
    const until = performance.now() + budgetMs;
    do {
      let left = TEND_STEP;
      for (const id of this.#pending) {
        this.#link(id);
        this.#pending.delete(id);
        if (--left === 0) break;
      }
    } while (this.#pending.size > 0 && performance.now() < until);
    return this.#pending.size > 0;
  }

  async saveGraph(file: string): Promise<(number | null)[] | null> {
    const graph = this.#graph;
    if (graph === null || this.#isFrozen) return null;
    const idOf = this.#idOf;
    const count = idOf.length;
    this.#isFrozen = true;
    try {
      await graph.writeIndex(file);
    } finally {
      this.#isFrozen = false;
    }
    const ids = new Array<number | null>(count);
    for (let label = 0; label < count; label++) {
      const id = idOf[label]!;
      ids[label] = this.#labels.get(id) === label ? id : null;
    }
    return ids;
  }

  async restoreGraph(file: string, ids: readonly (number | null)[]): Promise<void> {
    if (this.#graph !== null || this.#isFrozen) throw new Error('there is a graph already');
    const graph = new this.#library.HierarchicalNSW('ip', this.#graphDimensions);
    this.#isFrozen = true;
    try {
      await graph.readIndex(file);
    } finally {
      this.#isFrozen = false;
    }
    if (graph.getCurrentCount() !== ids.length) throw new Error('the graph holds another number of vectors');
    for (const [label, id] of ids.entries()) {
      if (id !== null && this.#pending.delete(id)) this.#labels.set(id, label);
      else markRemoved(graph, label);
    }
    this.#idOf = ids.map((id) => id ?? NO_ID);
    this.#capacity = graph.getMaxElements();
    this.#graph = graph;
  }

  /** Whether a longer look would find nothing: the graph was seen whole, or as far as the similarity reaches. */
  #hasSeenEnough(near: readonly VectorMatch[], wanted: number, minSimilarity: number): boolean {
    if (near.length >= this.#labels.size) return true;
    const error = this.#graphDimensions < this.dimensions ? PROJECTION_ERROR : 0;
    return near.length >= wanted && near[near.length - 1]!.similarity < minSimilarity - error;
  }

  #countCandidates(k: number, isFiltered: boolean): number {
    if (isFiltered) return Math.max(EF_SEARCH, FILTERED_FACTOR * k);
    return this.#graphDimensions < this.dimensions ? Math.max(COMPARED_MIN, COMPARED_FACTOR * k) : k;
  }

  /** @returns best first */
  #searchGraph(graph: HierarchicalNSW, vector: Float32Array, wanted: number): VectorMatch[] {
    graph.setEf(Math.max(EF_SEARCH, wanted));
    const { neighbors, distances } = graph.searchKnn(this.#project(vector), wanted);
    return neighbors.map((label, at) => ({ id: this.#idOf[label]!, similarity: 1 - distances[at]! }));
  }

  #project(vector: Float32Array): number[] {
    if (this.#graphDimensions === this.dimensions) return Array.from(vector);
    this.#projection ??= new Projection(this.dimensions, this.#graphDimensions);
    return this.#projection.project(vector);
  }

  #link(id: number): void {
    const label = this.#idOf.length;
    let graph = this.#graph;
    if (graph === null) {
      this.#capacity = Math.max(this.#sizeMin, this.size);
      graph = new this.#library.HierarchicalNSW('ip', this.#graphDimensions);
      graph.initIndex(this.#capacity, M, EF_CONSTRUCTION, SEED);
      this.#graph = graph;
    } else if (label === this.#capacity) {
      this.#capacity = Math.ceil(this.#capacity * 1.5);
      graph.resizeIndex(this.#capacity);
    }
    graph.addPoint(this.#project(this.#exact.get(id)!), label);
    this.#idOf.push(id);
    this.#labels.set(id, label);
  }

  #unlink(id: number): void {
    const label = this.#labels.get(id);
    if (label === undefined) return;
    this.#graph!.markDelete(label);
    this.#labels.delete(id);
  }

  #needsGraph(): boolean {
    return this.#graph !== null || this.size >= this.#sizeMin;
  }

  #isWorn(): boolean {
    const removed = this.#idOf.length - this.#labels.size;
    return removed > GRAPH_SIZE_MIN / 2 && removed > REMOVED_SHARE_MAX * this.#idOf.length;
  }

  #discardGraph(): void {
    this.#graph = null;
    this.#capacity = 0;
    this.#labels.clear();
    this.#idOf = [];
    for (const id of this.#exact.ids()) this.#pending.add(id);
  }
}

/** Marked before it was saved, it is marked still, and says so. */
function markRemoved(graph: HierarchicalNSW, label: number): void {
  try {
    graph.markDelete(label);
  } catch {
    // As it should be.
  }
}

/** The native library. @throws Error when it is not compiled for this machine */
export function loadHnswlib(): Hnswlib {
  const wide = loadWideFunctions<Hnswlib>(['HierarchicalNSW'], 'hnswlib-avx2.node');
  return wide ?? (createRequire(import.meta.url)('hnswlib-node') as Hnswlib);
}
