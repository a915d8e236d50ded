/**
 * The approximate vector index: a hierarchical navigable small-world graph (Malkov and Yashunin, arXiv 1603.09320) by
 * hnswlib, walked by native/graph.cc. An exact index beside it holds every vector. It answers as long as the set is small, searches what
 * the graph does not hold yet, answers when a filter leaves the graph too few, and is the source of a new graph.
 * Any thread; each index in one. Others search what it shares (index-catalog.ts).
 *
 * The graph holds no more than 384 dimensions of a vector (projection.ts), half a byte each, because a walk waits for memory and
 * small rows are fast. The exact index compares what the walk finds, so similarities are exact.
 *
 * Adding to a graph costs some 0.15 ms a vector, so `add` only notes it and `tend` does it: until then such vectors are
 * compared one by one. Memory: 4 bytes a dimension, 196 bytes at most for the graph's copy, and some 400 bytes a vector.
 *
 * Build parameters: `bench/retrieve.ts` prints what they cost and what they find.
 */
import { arch, endianness } from 'node:os';
import { type Graph, type GraphEngine, loadGraphEngine } from '../../native/graph-engine.ts';
import { BestMatches } from './best-matches.ts';
import { ExactIndex } from './exact-index.ts';
import { PROJECTION_NAME, Projection } from './projection.ts';
import type { SharedIndex } from './shared-index.ts';
import { checkVector } from './vector-check.ts';
import type { AcceptId, SavableIndex, VectorMatch } from './vector-index.ts';

/** Neighbours of a point; twice as many on the ground floor. */
const M = 16;
/** Candidates looked at to find a new point's neighbours. */
const EF_CONSTRUCTION = 64;
/** Candidates that a search keeps. */
const EF_SEARCH = 80;
/** Candidates that are compared whole, and so many times as are wanted. */
const COMPARED_MIN = 40;
const COMPARED_FACTOR = 4;
/** Dimensions of the graph. */
const GRAPH_DIMENSIONS = 384;
/** How far a projected cosine may be from the real one: three times its usual error. */
const PROJECTION_ERROR = 3 / Math.sqrt(GRAPH_DIMENSIONS);
/** The same for one that is only made coarser; of few dimensions it errs more. */
const ROW_ERROR = 0.1;
/** Fetched at least when a filter will drop some, and so many times as are wanted. */
const FILTERED_MIN = 128;
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

/** How far a search looks for `k` results. */
export interface LookPlan {
  /** Compared whole. */
  candidates: number;
  /** Kept on the way, at least. */
  ef: number;
  /** How far the graph's similarity may be from the real one. */
  error: number;
}

export function planSearch(dimensions: number, k: number, isFiltered: boolean): LookPlan {
  return {
    candidates: isFiltered
      ? Math.max(FILTERED_MIN, FILTERED_FACTOR * k)
      : Math.max(COMPARED_MIN, COMPARED_FACTOR * k),
    ef: EF_SEARCH,
    error: dimensions > GRAPH_DIMENSIONS ? PROJECTION_ERROR : ROW_ERROR,
  };
}

/** By dimensions: an embedder has one number of them, and there are two embedders at most. */
const projections = new Map<number, Projection>();

/** Makes of a vector what the graph has of it: numbers that its next call writes over. */
export function projectorOf(dimensions: number): (vector: Float32Array) => Float32Array {
  if (dimensions <= GRAPH_DIMENSIONS) return (vector) => vector;
  let projection = projections.get(dimensions);
  if (projection === undefined) {
    projection = new Projection(dimensions, GRAPH_DIMENSIONS);
    projections.set(dimensions, projection);
  }
  return (vector) => projection.project(vector);
}

/** What a walk gives, of this thread: used within one search and never across. */
let labelsFound = new Uint32Array(FILTERED_MIN);
let similaritiesFound = new Float32Array(FILTERED_MIN);

export class HnswIndex implements SavableIndex {
  readonly dimensions: number;
  readonly graphKind: string;
  readonly #engine: GraphEngine;
  readonly #exact: ExactIndex;
  readonly #shared: SharedIndex | null;
  readonly #project: (vector: Float32Array) => Float32Array;
  readonly #graphDimensions: number;
  readonly #sizeMin: number;
  #graph: Graph | null = null;
  #capacity = 0;
  /** Labels in the graph that are found. A label is never used twice in one graph. */
  readonly #labels = new Map<number, number>();
  /** By label; what was removed since stays and is marked in the graph. */
  #idOf: number[] = [];
  /** In the exact index and not in the graph. */
  readonly #pending = new Set<number>();
  /** A file is being written or read: the graph must not grow, and would refuse to. */
  #isFrozen = false;

  /** @param shared what other threads see of it */
  constructor(engine: GraphEngine, dimensions: number, shared: SharedIndex | null = null) {
    this.#engine = engine;
    this.#shared = shared;
    this.#exact = this.#change(() => new ExactIndex(dimensions, shared));
    this.#project = projectorOf(dimensions);
    this.dimensions = dimensions;
    this.#graphDimensions = Math.min(dimensions, GRAPH_DIMENSIONS);
    this.graphKind = `hnswlib ${arch()} ${endianness()} half bytes ${this.#graphDimensions} of ${dimensions} by ${PROJECTION_NAME} M${M} ef${EF_CONSTRUCTION}`;
    this.#sizeMin = Math.ceil((GRAPH_SIZE_MIN * this.#graphDimensions) / dimensions);
  }

  get size(): number {
    return this.#exact.size;
  }

  get bytes(): number {
    const points = this.#capacity * (this.#graphDimensions / 2 + GRAPH_BYTES);
    const own = this.#exact.bytes + points + this.#labels.size * 60 + this.#idOf.length * 8;
    return own + (this.#shared?.bytes ?? 0);
  }

  get savable(): SavableIndex {
    return this;
  }

  get unlinked(): number {
    return this.#needsGraph() ? this.#pending.size : 0;
  }

  add(id: number, vector: Float32Array): void {
    this.#change(() => {
      this.#exact.add(id, vector);
      this.#unlink(id);
      this.#pending.add(id);
      this.#shared?.await(id);
    });
  }

  remove(id: number): boolean {
    if (!this.#exact.has(id)) return false;
    this.#change(() => {
      this.#exact.remove(id);
      this.#pending.delete(id);
      this.#unlink(id);
    });
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
    checkVector(vector, this.dimensions);
    if (k <= 0) return [];
    const plan = planSearch(this.dimensions, k, accept !== undefined);
    const wanted = Math.min(this.#labels.size, plan.candidates);
    const ids = this.#searchGraph(this.#graph, vector, wanted);
    // Compared whole: the graph holds less of each.
    const found = this.#exact.searchAmong(vector, ids, k, accept);
    if (found.length < k && !this.#hasSeenEnough(ids.length, wanted, minSimilarity - plan.error))
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
    if (this.#graph !== null && this.#isWorn()) this.#change(() => this.#discardGraph());
    if (this.#pending.size === 0) return false;
    const until = performance.now() + budgetMs;
    do {
      let left = TEND_STEP;
      for (const id of this.#pending) {
        this.#change(() => {
          this.#link(id);
          this.#pending.delete(id);
        });
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
      await this.#engine.writeGraph(graph, file);
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
    const engine = this.#engine;
    let graph: Graph;
    this.#isFrozen = true;
    try {
      graph = await engine.readGraph(this.#graphDimensions, file);
    } finally {
      this.#isFrozen = false;
    }
    if (engine.countPoints(graph) !== ids.length)
      throw new Error('the graph holds another number of vectors');
    for (const [label, id] of ids.entries()) {
      if (id !== null && this.#pending.delete(id)) this.#labels.set(id, label);
      else markRemoved(engine, graph, label);
    }
    this.#idOf = ids.map((id) => id ?? NO_ID);
    this.#capacity = engine.capacityOf(graph);
    this.#graph = graph;
    const found = ids.map((id, label) => (id !== null && this.#labels.get(id) === label ? id : null));
    this.#change(() => this.#shared?.takeGraph(graph, found));
  }

  /** Whether a longer look would find nothing: the graph was seen whole, or as far as the similarity reaches. */
  #hasSeenEnough(count: number, wanted: number, least: number): boolean {
    if (count >= this.#labels.size) return true;
    return count >= wanted && similaritiesFound[count - 1]! < least;
  }

  /** @returns ids, best first, until the next search; their similarities stand in `similaritiesFound` */
  #searchGraph(graph: Graph, vector: Float32Array, wanted: number): Uint32Array {
    if (wanted > labelsFound.length) {
      labelsFound = new Uint32Array(wanted);
      similaritiesFound = new Float32Array(wanted);
    }
    const ef = Math.max(EF_SEARCH, wanted);
    const projected = this.#project(vector);
    const count = this.#engine.searchGraph(graph, projected, wanted, ef, labelsFound, similaritiesFound);
    for (let at = 0; at < count; at++) labelsFound[at] = this.#idOf[labelsFound[at]!]!;
    return labelsFound.subarray(0, count);
  }

  #link(id: number): void {
    const label = this.#idOf.length;
    const engine = this.#engine;
    let graph = this.#graph;
    if (graph === null) {
      this.#capacity = Math.max(this.#sizeMin, this.size);
      graph = engine.createGraph(this.#graphDimensions, this.#capacity, M, EF_CONSTRUCTION, SEED);
      this.#graph = graph;
      this.#shared?.takeGraph(graph, []);
    } else if (label === this.#capacity) {
      this.#capacity = Math.ceil(this.#capacity * 1.5);
      engine.resizeGraph(graph, this.#capacity);
    }
    engine.addPoint(graph, this.#project(this.#exact.get(id)!), label);
    this.#idOf.push(id);
    this.#labels.set(id, label);
    this.#shared?.link(id);
  }

  #unlink(id: number): void {
    const label = this.#labels.get(id);
    if (label === undefined) return;
    this.#engine.markRemoved(this.#graph!, label);
    this.#labels.delete(id);
    this.#shared?.unlink();
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
    this.#shared?.dropGraph();
  }

  /** Nobody else searches meanwhile. */
  #change<Value>(work: () => Value): Value {
    return this.#shared === null ? work() : this.#shared.change(work);
  }
}

/** Marked before it was saved, it is marked still, and says so. */
function markRemoved(engine: GraphEngine, graph: Graph, label: number): void {
  try {
    engine.markRemoved(graph, label);
  } catch {
    // As it should be.
  }
}

/** The native library. @throws Error when it is not compiled for this machine */
export function loadHnswlib(): GraphEngine {
  return loadGraphEngine();
}
