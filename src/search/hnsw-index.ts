/**
 * The approximate vector index: a hierarchical navigable small-world graph (Malkov and Yashunin, arXiv 1603.09320) by
 * hnswlib, searched by native/graph.cc. In addition, an exact index has every vector. The exact index is searched while
 * the set is small, for vectors that are not in the graph yet, and if a filter excludes too much of the graph. New
 * graphs are built from the exact index. Any thread; each index belongs to one thread. Other threads search its shared
 * part (index-catalog.ts).
 *
 * The graph has at most 1,536 dimensions of a vector (projection.ts), half a byte each: a walk mostly waits for memory,
 * so small rows are fast. The exact index compares the candidates that the walk finds, so similarities are exact.
 *
 * A walk finds candidates by rounded similarities. If the last candidate is about as similar as the last result, a
 * better vector may come after it, so the search walks again and keeps more candidates (`planSearch`). Texts that
 * differ only in a number or a name need this; other texts seldom do.
 *
 * Adding a vector to a graph takes about 0.2 ms. So `add` only records the vector, and `tend` adds it to the graph.
 * Until then, the vector is compared directly. Memory: 2 bytes per dimension (1.2 in a shared index), half a byte per
 * dimension for the graph's copy, and about 480 bytes per vector.
 *
 * `bench/retrieve.ts` prints the cost and the quality of the build parameters.
 */
import { arch, endianness } from 'node:os';
import { type Graph, type GraphEngine, loadGraphEngine } from '../../native/graph-engine.ts';
import { BestMatches } from './best-matches.ts';
import { ExactIndex } from './exact-index.ts';
import { PROJECTION_NAME, Projection } from './projection.ts';
import type { SharedIndex } from './shared-index.ts';
import { checkVector } from './vector-check.ts';
import type { AcceptId, SavableIndex, VectorMatch } from './vector-index.ts';

/** Number of neighbours of a point; twice as many on the lowest level. */
const M = 24;
/** Maximum number of candidates considered as neighbours of a new point. */
const EF_CONSTRUCTION = 100;
/** Number of candidates of the first walk and of the two wider ones. bench/notes/retrieval.md has the quality. */
const LOOKS = [112, 320, 960] as const;
/** Minimum number of candidates that are compared exactly: in total, and for each result. The larger number applies. */
const COMPARED_MIN = 32;
const COMPARED_WANTED = 2;
/** Minimum number of candidates of a walk for each result. */
const COMPARED_FACTOR = 4;
/** Minimum number of candidates of a walk when a filter drops some of them: in total, and for each result. */
const FILTERED_MIN = 128;
const FILTERED_FACTOR = 8;
/**
 * Another walk follows if the last candidate is nearly as similar as the last result: a second walk if their
 * similarities differ by less than the first number, a third walk if they differ by less than the second number.
 */
const MARGINS = [0.03, 0.015] as const;
/** Maximum number of dimensions of the graph. */
const GRAPH_DIMENSIONS = 1_536;
/** Largest error of a projected cosine: three times its usual error. */
const PROJECTION_ERROR = 3 / Math.sqrt(GRAPH_DIMENSIONS);
/**
 * Largest error of the cosine of a vector that is quantized but not projected, times the root of the dimensions: about
 * four times its usual error.
 */
const ROW_ERROR = 0.4;
/** Seed of the graph's random levels: the same points, added in the same order, give the same graph. */
const SEED = 100;
/**
 * Number of vectors from which a graph is built; with fewer, comparing with all is as fast. The number is lower for
 * vectors of more than GRAPH_SIZE_DIMENSIONS dimensions.
 */
export const GRAPH_SIZE_MIN = 2_000;
const GRAPH_SIZE_DIMENSIONS = 384;
/** Replaces the id of a removed vector that is still in the graph. */
const NO_ID = -1;
/**
 * Maximum share of removed points, which make searches slower. Beyond it, the graph is rebuilt if it has more than half
 * of GRAPH_SIZE_MIN removed points.
 */
const REMOVED_SHARE_MAX = 0.3;
/** Maximum number of points added between two checks of the clock. */
const TEND_STEP = 4;
/** Links (4 bytes each, 2M on the lowest level and about one more level), label, lock and list heads of one point. */
const GRAPH_BYTES = 4 * (2 * M + 1) + 4 * (M + 1) + 8 + 40 + 64;

/** How many candidates a search examines for `k` results. */
interface LookPlan {
  /** Candidates of the first, the second and the third walk. */
  looks: readonly [number, number, number];
  /**
   * The result of the first or the second walk is final if the similarity of the last candidate is at least this far
   * below that of the last result.
   */
  margins: readonly [number, number];
  /**
   * Minimum number of candidates that are compared exactly. Further candidates are compared only if they may be among
   * the results.
   */
  compared: number;
  /** Largest error of the graph's similarity. */
  error: number;
}

/** Plans a search for the `k` best vectors. A filter needs more candidates, because it drops some of them. */
export function planSearch(dimensions: number, k: number, isFiltered: boolean): LookPlan {
  const least = isFiltered ? Math.max(FILTERED_MIN, FILTERED_FACTOR * k) : COMPARED_FACTOR * k;
  const [first, second, third] = LOOKS.map((look) => Math.max(look, least)) as [number, number, number];
  return {
    looks: [first, second, third],
    margins: MARGINS,
    compared: Math.max(COMPARED_MIN, COMPARED_WANTED * k),
    error: dimensions > GRAPH_DIMENSIONS ? PROJECTION_ERROR : ROW_ERROR / Math.sqrt(dimensions),
  };
}

/** Projections by number of dimensions. There are at most two embedders, each with one number of dimensions. */
const projections = new Map<number, Projection>();

/**
 * Returns the function that converts a vector to the graph's form. Its next call may overwrite the result. A vector of
 * at most GRAPH_DIMENSIONS dimensions is returned itself.
 */
export function projectorOf(dimensions: number): (vector: Float32Array) => Float32Array {
  if (dimensions <= GRAPH_DIMENSIONS) return (vector) => vector;
  let projection = projections.get(dimensions);
  if (projection === undefined) {
    projection = new Projection(dimensions, GRAPH_DIMENSIONS);
    projections.set(dimensions, projection);
  }
  return (vector) => projection.project(vector);
}

/** Results of a walk, for this thread; used only within one search. */
let labelsFound = new Uint32Array(LOOKS[2]);
let similaritiesFound = new Float32Array(LOOKS[2]);

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
  /** Labels of the points that can be found. A graph never reuses a label. */
  readonly #labels = new Map<number, number>();
  /** The id of each label; removed vectors keep their label, and are marked in the graph. */
  #idOf: number[] = [];
  /** Vectors that are in the exact index but not in the graph. */
  readonly #pending = new Set<number>();
  /**
   * Buffer for the vector that is being linked. A new one for each vector would be garbage outside the V8 heap, which
   * does not trigger the garbage collector.
   */
  readonly #linked: Float32Array;
  /** Whether the graph is being written to a file or read from one, during which it must not grow. */
  #isFrozen = false;

  /**
   * @param shared the part for other threads
   * @param isPacked like ExactIndex
   */
  constructor(
    engine: GraphEngine,
    dimensions: number,
    shared: SharedIndex | null = null,
    isPacked = shared !== null,
  ) {
    this.#engine = engine;
    this.#shared = shared;
    this.#exact = this.#change(() => new ExactIndex(dimensions, shared, isPacked));
    this.#project = projectorOf(dimensions);
    this.dimensions = dimensions;
    this.#linked = new Float32Array(dimensions);
    this.#graphDimensions = Math.min(dimensions, GRAPH_DIMENSIONS);
    this.graphKind = `hnswlib ${arch()} ${endianness()} half bytes rotated blurred ${this.#graphDimensions} of ${dimensions} by ${PROJECTION_NAME} M${M} ef${EF_CONSTRUCTION}`;
    this.#sizeMin = Math.ceil((GRAPH_SIZE_MIN * Math.min(dimensions, GRAPH_SIZE_DIMENSIONS)) / dimensions);
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
    // If half of the vectors must be compared one by one, searching the graph saves no time.
    if (this.#graph === null || this.#pending.size > this.size / 2)
      return this.#exact.search(vector, k, accept, minSimilarity);
    checkVector(vector, this.dimensions);
    if (k <= 0) return [];
    const found = this.#look(this.#graph, vector, k, accept, minSimilarity);
    if (found === null) return this.#exact.search(vector, k, accept, minSimilarity);
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

  /**
   * Searches the graph, with wider walks until the result is certain. `shared-index.h` does the same for other threads.
   * @returns the best matches in the graph; null if every vector must be compared
   */
  #look(
    graph: Graph,
    vector: Float32Array,
    k: number,
    accept: AcceptId | undefined,
    minSimilarity: number,
  ): VectorMatch[] | null {
    const plan = planSearch(this.dimensions, k, accept !== undefined);
    const { looks, margins, error } = plan;
    for (const [turn, look] of looks.entries()) {
      const wanted = Math.min(this.#labels.size, look);
      const ids = this.#searchGraph(graph, vector, wanted);
      const found = this.#compare(vector, ids, k, accept, plan);
      if (ids.length >= this.#labels.size) return found;
      const last = ids.length >= wanted && ids.length > 0 ? similaritiesFound[ids.length - 1]! : Infinity;
      if (last < minSimilarity - error) return found;
      const isFull = found.length >= k;
      if (isFull && (turn >= margins.length || found[k - 1]!.similarity - last >= margins[turn]!))
        return found;
      // The filter lets so few results through that the widest walk would not find enough.
      if (!isFull && found.length * looks[2] < k * look) return null;
    }
    return null;
  }

  /**
   * Compares the candidates exactly, because the graph has only a rough form of each vector, and returns the best ones.
   */
  #compare(
    vector: Float32Array,
    ids: Uint32Array,
    k: number,
    accept: AcceptId | undefined,
    { compared, error }: LookPlan,
  ): VectorMatch[] {
    const first = this.#exact.searchAmong(vector, ids.subarray(0, compared), k, accept);
    if (ids.length <= compared) return first;
    const least = first.length < k ? -Infinity : first[k - 1]!.similarity - error;
    let end = compared;
    while (end < ids.length && similaritiesFound[end]! >= least) end++;
    const best = new BestMatches(k, -Infinity);
    for (const { id, similarity } of first) best.offer(id, similarity);
    for (const { id, similarity } of this.#exact.searchAmong(vector, ids.subarray(compared, end), k, accept))
      best.offer(id, similarity);
    return best.take();
  }

  /**
   * Walks the graph.
   * @returns ids, best first, valid until the next search; `similaritiesFound` has their similarities
   */
  #searchGraph(graph: Graph, vector: Float32Array, wanted: number): Uint32Array {
    if (wanted > labelsFound.length) {
      labelsFound = new Uint32Array(wanted);
      similaritiesFound = new Float32Array(wanted);
    }
    const projected = this.#project(vector);
    const count = this.#engine.searchGraph(
      graph,
      projected,
      wanted,
      Math.max(1, wanted),
      labelsFound,
      similaritiesFound,
    );
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
    engine.addPoint(graph, this.#project(this.#exact.get(id, this.#linked)!), label);
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

  /** Runs `work` while no other thread searches the index. */
  #change<Value>(work: () => Value): Value {
    return this.#shared === null ? work() : this.#shared.change(work);
  }
}

/**
 * Marks a point as removed. If the point was marked before the graph was saved, the engine throws, which is ignored.
 */
function markRemoved(engine: GraphEngine, graph: Graph, label: number): void {
  try {
    engine.markRemoved(graph, label);
  } catch {
    // The point is marked already.
  }
}

/**
 * Loads the native library.
 * @throws Error when it is not compiled for this machine
 */
export function loadHnswlib(): GraphEngine {
  return loadGraphEngine();
}
