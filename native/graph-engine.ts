/**
 * Graphs of vectors in native code (graph.cc), for src/search/hnsw-index.ts. There is no fallback: without the addon every
 * search compares with every vector. Any thread; a graph never leaves the one that made it.
 */
import { loadFunctions, type Widths } from './load-functions.ts';

declare const graphMark: unique symbol;
/** A graph, freed with the handle. */
export interface Graph {
  readonly [graphMark]: true;
}

/** All throw an Error with the library's words, TypeErrors and RangeErrors for arguments that do not fit. */
export interface GraphEngine extends Widths {
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
  'setWidestLevel',
];

/** @throws Error when it was not compiled for this machine */
export function loadGraphEngine(): GraphEngine {
  const engine = loadFunctions<GraphEngine>('graph.node', NAMES);
  if (engine === null) throw new Error('it was not compiled for this machine');
  return engine;
}
