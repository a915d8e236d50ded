/**
 * Vector graphs in native code (graph.cc), for src/search/hnsw-index.ts, and indexes that threads share, for
 * src/search/index-catalog.ts. There is no fallback: without the addon, every search compares with all vectors, on
 * the index's thread. Any thread; a handle belongs to the thread that made it.
 */
import { loadFunctions, type Widths } from './load-functions.ts';

declare const graphMark: unique symbol;
/** A graph, freed with the handle. */
export interface Graph {
  readonly [graphMark]: true;
}

declare const catalogMark: unique symbol;
/** The shared indexes of one store. */
export interface CatalogHandle {
  readonly [catalogMark]: true;
}

declare const sharedMark: unique symbol;
/** A shared index, on the thread that changes it. */
export interface SharedHandle {
  readonly [sharedMark]: true;
}

/** In a list of ids: the point is marked as removed. */
export const NO_SHARED_ID = 2 ** 32 - 1;

/**
 * The calls of the only thread that changes shared indexes. No other thread searches an index between `beginChange`
 * and `endChange`; `beginChange` waits for running searches. Methods that change an index throw outside of these two
 * calls.
 */
interface SharedChanges {
  /**
   * Threads of the process find it by its key until it is closed or its thread ends. It replaces an earlier catalog
   * with the same key.
   */
  openCatalog(key: string): CatalogHandle;
  closeCatalog(catalog: CatalogHandle): void;
  /** From now on, searches that pass this text find the indexes. With an empty text, no search finds them. */
  serveCatalog(catalog: CatalogHandle, vectorsId: string): void;
  /**
   * @param group of indexes that are listed together; empty: no group
   * @param blockBits each block except the last has 2^`blockBits` vectors
   * @throws Error if the name is in use
   */
  shareIndex(
    catalog: CatalogHandle,
    name: string,
    group: string,
    dimensions: number,
    blockBits: number,
  ): SharedHandle;
  beginChange(index: SharedHandle): void;
  endChange(index: SharedHandle): void;
  /** Zeroed memory for that many stored vectors (src/search/packed-vector.ts). It replaces the block with this number, or follows the last block. */
  makeVectorBlock(index: SharedHandle, number: number, vectors: number): Uint8Array;
  /** Removes the last block, which holds no vector. */
  dropBlock(index: SharedHandle): void;
  /** Adds a vector at the end; the caller writes its numbers there. */
  enterVector(index: SharedHandle, id: number): void;
  /** Removes a vector; the last one takes its position, and the caller moves the numbers. */
  leaveVector(index: SharedHandle, id: number): void;
  /** From now on, every search compares this vector directly, without the graph. */
  awaitVector(index: SharedHandle, id: number): void;
  /** The vector is the graph's next point. */
  linkVector(index: SharedHandle, id: number): void;
  /** Call it when the point of a vector was marked as removed. */
  unlinkVector(index: SharedHandle): void;
  /**
   * @param ids by point; NO_SHARED_ID for a point that is marked
   */
  takeGraph(index: SharedHandle, graph: Graph, ids: Uint32Array): void;
  dropGraph(index: SharedHandle): void;
  /**
   * Sets what a search filters by and returns. A search does not find a vector without it; an empty name removes it.
   */
  describeVector(index: SharedHandle, id: number, name: string, kind: string, family: string): void;
  /** Bytes of memory in addition to the vectors and the graph. */
  measureShared(index: SharedHandle): number;
}

/** The calls of any thread. They never wait: null means that the catalog or the index is not available now. */
export interface SharedSearches {
  /** The names, among the given ones and those of the group, whose indexes are not empty. */
  listShared(key: string, vectorsId: string, names: readonly string[], group: string): string[] | null;
  /**
   * Searches like `HnswIndex.search`, with the same result.
   * @param projected the vector in the graph's form
   * @param looks number of candidates of each walk, in ascending order
   * @param margins for each walk except the last: how far the last candidate must be below the last result
   * @param compared least number of candidates that are compared exactly
   * @param comparedMax null is returned if more vectors would have to be compared one by one
   * @param kind only results of this kind; null: any
   * @param preferred receives 1 for each result of the family
   * @returns names, best first; at most `k`
   */
  searchShared(
    key: string,
    vectorsId: string,
    name: string,
    vector: Float32Array,
    projected: Float32Array,
    k: number,
    looks: Uint32Array,
    margins: Float64Array,
    compared: number,
    error: number,
    minSimilarity: number,
    comparedMax: number,
    kind: string | null,
    family: string,
    similarities: Float64Array,
    preferred: Uint8Array,
  ): string[] | null;
}

/** All functions throw an Error with the library's message, and a TypeError or RangeError for invalid arguments. */
export interface GraphEngine extends Widths, SharedChanges, SharedSearches {
  /**
   * @param capacity most points
   * @param links neighbours of a point; twice as many on the lowest level
   * @param efConstruction candidates considered as neighbours of a new point
   * @param seed of the random levels
   */
  createGraph(
    dimensions: number,
    capacity: number,
    links: number,
    efConstruction: number,
    seed: number,
  ): Graph;
  /**
   * Adds a vector of length 1, of which the graph keeps half a byte per dimension. Not allowed while the graph is
   * being written.
   * @throws RangeError for a number that is not finite or far too large
   */
  addPoint(graph: Graph, vector: Float32Array, label: number): void;
  /**
   * From now on, no search finds the point. Allowed while the graph is being written. Throws if the point is already
   * marked.
   */
  markRemoved(graph: Graph, label: number): void;
  /** Not allowed while the graph is being written. */
  resizeGraph(graph: Graph, capacity: number): void;
  /** Includes the points that are marked as removed. */
  countPoints(graph: Graph): number;
  capacityOf(graph: Graph): number;
  /**
   * Finds the approximately nearest points that are not removed.
   * @param ef candidates kept during the search
   * @param labels receives the results, nearest first
   * @param similarities receives approximate cosines, computed from the graph's rows
   * @returns number of results, at most `wanted`
   * @throws RangeError for a number that is not finite or far too large
   */
  searchGraph(
    graph: Graph,
    vector: Float32Array,
    wanted: number,
    ef: number,
    labels: Uint32Array,
    similarities: Float32Array,
  ): number;
  /**
   * Writes the present graph on another thread. Later removals are not in the file. Until it is done, adding points
   * and resizing throw.
   */
  writeGraph(graph: Graph, file: string): Promise<void>;
  /**
   * Reads on another thread. The content of the file is not trusted.
   * @throws Error if it does not contain a valid graph of such vectors
   */
  readGraph(dimensions: number, file: string): Promise<Graph>;
}

const NAMES: (keyof GraphEngine)[] = [
  'createGraph',
  'addPoint',
  'markRemoved',
  'resizeGraph',
  'countPoints',
  'capacityOf',
  'searchGraph',
  'writeGraph',
  'readGraph',
  'openCatalog',
  'closeCatalog',
  'serveCatalog',
  'shareIndex',
  'beginChange',
  'endChange',
  'makeVectorBlock',
  'dropBlock',
  'enterVector',
  'leaveVector',
  'awaitVector',
  'linkVector',
  'unlinkVector',
  'takeGraph',
  'dropGraph',
  'describeVector',
  'measureShared',
  'listShared',
  'searchShared',
  'setWidestLevel',
];

/**
 * @throws Error if it was not compiled for this machine
 */
export function loadGraphEngine(): GraphEngine {
  const engine = loadFunctions<GraphEngine>('graph.node', NAMES);
  if (engine === null) throw new Error('it was not compiled for this machine');
  return engine;
}
