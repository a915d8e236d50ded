/**
 * Graphs of vectors in native code (graph.cc), for src/search/hnsw-index.ts, and the indexes that threads share, for
 * src/search/index-catalog.ts. There is no fallback: without the addon every search compares with every vector, on the thread of the
 * index. Any thread; a handle never leaves the one that made it.
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
 * What the one thread that changes shared indexes calls. Between `beginChange` and `endChange` no other thread searches the
 * index: `beginChange` waits for those that do. What changes an index throws outside of the two.
 */
interface SharedChanges {
  /** Found under its key by the whole process until it is closed or its thread ends. One before it under the key is found no more. */
  openCatalog(key: string): CatalogHandle;
  closeCatalog(catalog: CatalogHandle): void;
  /** From now on searches that know this text find the indexes; with an empty one none does. */
  serveCatalog(catalog: CatalogHandle, vectorsId: string): void;
  /**
   * @param group of indexes that are listed together; empty: none
   * @param blockBits 2^`blockBits` vectors in every block but the last
   * @throws Error when the name is taken
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
  /** Room for so many vectors, zeros; in the place of the block with this number, or behind the last. */
  makeBlock(index: SharedHandle, number: number, vectors: number): Float32Array;
  /** The last one, which holds nothing. */
  dropBlock(index: SharedHandle): void;
  /** Takes the next place; the caller writes the numbers there. */
  enterVector(index: SharedHandle, id: number): void;
  /** The last one takes its place; the caller moves the numbers. */
  leaveVector(index: SharedHandle, id: number): void;
  /** It is compared by itself. */
  awaitVector(index: SharedHandle, id: number): void;
  /** It is the graph's next point. */
  linkVector(index: SharedHandle, id: number): void;
  /** The point of one has been marked as removed. */
  unlinkVector(index: SharedHandle): void;
  /** @param ids by point, NO_SHARED_ID for one that is marked */
  takeGraph(index: SharedHandle, graph: Graph, ids: Uint32Array): void;
  dropGraph(index: SharedHandle): void;
  /** What a search filters by and answers with: nothing is found that was not described. With an empty name: no more. */
  describeVector(index: SharedHandle, id: number, name: string, kind: string, family: string): void;
  /** Memory beside vectors and graph. */
  measureShared(index: SharedHandle): number;
}

/** What any thread may call. No call waits: null says that the catalog or the index cannot be had now. */
export interface SharedSearches {
  /** The names of those that hold something, of the named ones and of the group's. */
  listShared(key: string, vectorsId: string, names: readonly string[], group: string): string[] | null;
  /**
   * Searches as `HnswIndex.search` does, with the same result.
   * @param projected the vector as the graph has it
   * @param looks candidates of each walk, fewest first
   * @param margins by walk: how far the last candidate must be below the last result; one fewer than there are walks
   * @param compared candidates that are compared whole at least
   * @param comparedMax null is returned where more vectors would have to be compared one by one
   * @param kind of what is found; null: any
   * @param preferred 1 for what is of the family
   * @returns names, best first; `k` at most
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

/** All throw an Error with the library's words, TypeErrors and RangeErrors for arguments that do not fit. */
export interface GraphEngine extends Widths, SharedChanges, SharedSearches {
  /**
   * @param capacity points that it has room for
   * @param links neighbours of a point; twice as many on the ground floor
   * @param efConstruction candidates looked at to find a new point's neighbours
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
   * Adds a vector of length 1, of which the graph keeps half a byte a dimension. Not while the graph is being written.
   * @throws RangeError for a number that is not finite or far too great
   */
  addPoint(graph: Graph, vector: Float32Array, label: number): void;
  /** Found no more from now on, also while the graph is being written. Throws for one that is marked already. */
  markRemoved(graph: Graph, label: number): void;
  /** Not while the graph is being written. */
  resizeGraph(graph: Graph, capacity: number): void;
  /** Those that are marked as removed too. */
  countPoints(graph: Graph): number;
  capacityOf(graph: Graph): number;
  /**
   * Finds the nearest that are not removed, or nearly so.
   * @param ef candidates kept on the way
   * @param labels of what is found, nearest first
   * @param similarities about the cosines: those of what the graph keeps
   * @returns how many were found, `wanted` at most
   * @throws RangeError for a number that is not finite or far too great
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
   * Beside the thread, as the graph is now: what is removed meanwhile is not in the file, and to add points and to resize throws
   * until it is done.
   */
  writeGraph(graph: Graph, file: string): Promise<void>;
  /**
   * Beside the thread. The file may hold anything.
   * @throws Error when it holds no graph of such vectors that could be walked
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
  'makeBlock',
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

/** @throws Error when it was not compiled for this machine */
export function loadGraphEngine(): GraphEngine {
  const engine = loadFunctions<GraphEngine>('graph.node', NAMES);
  if (engine === null) throw new Error('it was not compiled for this machine');
  return engine;
}
