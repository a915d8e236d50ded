/**
 * Interface of the graph addon (graph.cc): vector graphs, which src/search/hnsw-index.ts uses, and indexes that threads
 * share, which src/search/index-catalog.ts uses. There is no fallback: if the addon is missing, every search compares
 * all vectors on the index's thread. Any thread; only the thread that created a handle may use it.
 */
import { loadFunctions, type Widths } from './load-functions.ts';

declare const graphMark: unique symbol;
/** Handle of a graph. The graph is freed when the handle is garbage-collected. */
export interface Graph {
  readonly [graphMark]: true;
}

declare const catalogMark: unique symbol;
/** The shared indexes of one store. */
export interface CatalogHandle {
  readonly [catalogMark]: true;
}

declare const sharedMark: unique symbol;
/** Handle of a shared index, for the thread that changes it. */
export interface SharedHandle {
  readonly [sharedMark]: true;
}

/** Stands in a list of ids for a point that is marked as removed. */
export const NO_SHARED_ID = 2 ** 32 - 1;

/**
 * Calls for the thread that creates and changes shared indexes. `beginChange` waits for running searches, and other
 * threads cannot search the index until `endChange`. Methods that change an index throw before `beginChange` and after
 * `endChange`.
 */
interface SharedChanges {
  /**
   * Opens a catalog, which replaces an earlier one with the same key. All threads of the process find it by its key
   * until it is closed or its thread ends.
   */
  openCatalog(key: string): CatalogHandle;
  closeCatalog(catalog: CatalogHandle): void;
  /**
   * Makes the indexes available to searches that pass this `vectorsId`. An empty `vectorsId` hides the indexes from all
   * searches.
   */
  serveCatalog(catalog: CatalogHandle, vectorsId: string): void;
  /**
   * Adds an empty index to the catalog.
   * @param group name of a group of indexes that are listed together; empty: no group
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
  /**
   * Allocates a block with zeroed memory for `vectors` stored vectors (src/search/packed-vector.ts). It replaces the
   * block with this number or follows the last block.
   */
  makeVectorBlock(index: SharedHandle, number: number, vectors: number): Uint8Array;
  /** Removes the last block, which must not contain a vector. */
  dropBlock(index: SharedHandle): void;
  /** Adds a vector at the end; the caller writes its numbers there. */
  enterVector(index: SharedHandle, id: number): void;
  /** Removes a vector. The last vector takes its position; the caller moves the numbers of the last vector. */
  leaveVector(index: SharedHandle, id: number): void;
  /** Makes every search from now on compare this vector directly, without the graph. */
  awaitVector(index: SharedHandle, id: number): void;
  /** Declares which vector belongs to the graph's next point. Call this once for each added point, in order. */
  linkVector(index: SharedHandle, id: number): void;
  /** Counts one linked vector fewer. Call this after marking the point of a vector as removed. */
  unlinkVector(index: SharedHandle): void;
  /**
   * Makes searches use this graph from now on.
   * @param ids id of each point's vector; NO_SHARED_ID for a point that is marked as removed
   */
  takeGraph(index: SharedHandle, graph: Graph, ids: Uint32Array): void;
  dropGraph(index: SharedHandle): void;
  /**
   * Sets a vector's label: the name that searches return, and the kind and family. Searches skip vectors that have no
   * label; an empty name removes the label.
   */
  describeVector(index: SharedHandle, id: number, name: string, kind: string, family: string): void;
  /** Bytes of memory that the index takes in addition to the vectors and the graph. */
  measureShared(index: SharedHandle): number;
}

/** Calls for any thread. They never wait: null means that the catalog or the index is not available now. */
export interface SharedSearches {
  /** Lists those of the given names, and of the names in the group, whose indexes are not empty. */
  listShared(key: string, vectorsId: string, names: readonly string[], group: string): string[] | null;
  /**
   * Searches like `HnswIndex.search`, with the same result.
   * @param projected the vector in the graph's form
   * @param looks for each walk through the graph, its number of candidates; in ascending order
   * @param margins for each walk except the last: how far the last candidate must be below the last result
   * @param compared minimum number of candidates that are compared exactly
   * @param error largest error of the graph's similarities
   * @param minSimilarity less similar vectors are not found
   * @param comparedMax maximum number of vectors that are compared one by one; if more are needed, the result is null
   * @param kind only vectors of this kind are found; null: all kinds
   * @param similarities receives the exact similarity of each result
   * @param preferred receives 1 for each result of the family, 0 for the others
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
   * Creates an empty graph.
   * @param capacity maximum number of points
   * @param links maximum number of neighbours of a point; twice as many on the lowest level
   * @param efConstruction number of candidates considered as neighbours of a new point
   * @param seed seed for the random levels of points
   */
  createGraph(
    dimensions: number,
    capacity: number,
    links: number,
    efConstruction: number,
    seed: number,
  ): Graph;
  /**
   * Adds a vector of length 1; the graph stores it with half a byte per dimension. Throws while the graph is being
   * written.
   * @throws RangeError for a number that is not finite or far too large
   */
  addPoint(graph: Graph, vector: Float32Array, label: number): void;
  /**
   * Marks a point as removed, so that no search finds it. Allowed while the graph is being written. Throws if the point
   * is already marked.
   */
  markRemoved(graph: Graph, label: number): void;
  /** Changes the maximum number of points. Throws while the graph is being written. */
  resizeGraph(graph: Graph, capacity: number): void;
  /** Counts the points, including those marked as removed. */
  countPoints(graph: Graph): number;
  capacityOf(graph: Graph): number;
  /**
   * Finds the approximately nearest points that are not removed.
   * @param ef number of candidates that the search keeps
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
   * Writes the graph to a file on another thread. Points removed after this call are not marked in the file. `addPoint`
   * and `resizeGraph` throw until the promise settles.
   */
  writeGraph(graph: Graph, file: string): Promise<void>;
  /**
   * Reads a graph from a file on another thread. The content of the file is not trusted.
   * @throws Error if the file does not contain a valid graph of vectors with this number of dimensions
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
 * Loads the graph addon.
 * @throws Error if it was not compiled for this machine
 */
export function loadGraphEngine(): GraphEngine {
  const engine = loadFunctions<GraphEngine>('graph.node', NAMES);
  if (engine === null) throw new Error('it was not compiled for this machine');
  return engine;
}
