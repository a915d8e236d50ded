/**
 * Finds the nearest of many vectors, behind one narrow interface. Implementations: exact-index.ts compares with every
 * vector, hnsw-index.ts walks a graph (and holds an exact one for what the graph does not hold yet); one suite for
 * both. Vectors have length 1, so the inner product is the cosine. Interface; any thread, each index in one.
 */

/** One vector that was found. */
export interface VectorMatch {
  id: number;
  /** Cosine, −1 … 1 but for rounding. */
  similarity: number;
}

/** Says whether an id may be among the results. Called often: cheap, and without side effects. */
export type AcceptId = (id: number) => boolean;

export interface VectorIndex {
  readonly dimensions: number;
  /** Vectors in it. */
  readonly size: number;
  /** Memory of vectors and graph, both in JavaScript's heap and outside. */
  readonly bytes: number;
  /** Vectors that `tend` still has work with. */
  readonly unlinked: number;
  /** The same index, where it has a graph that can be saved; else null. */
  readonly savable: SavableIndex | null;
  /**
   * Adds a vector, or replaces the one with this id. It is found from the next search on.
   * @param id whole number, 0 … 2^32 − 1; an id may come again after it was removed
   * @param vector of length 1, or all zeros (similar to nothing); copied
   * @throws RangeError for another id, another number of dimensions, and for a number that is not finite or beyond
   *   VECTOR_NUMBER_MAX; nothing has changed then
   */
  add(id: number, vector: Float32Array): void;
  /** @returns false when it was not there */
  remove(id: number): boolean;
  has(id: number): boolean;
  /**
   * The vector; undefined when it is not there. These are the index's own numbers, good until something is added or
   * removed: to be read, not kept and not changed.
   */
  get(id: number): Float32Array | undefined;
  /**
   * @param vector of length 1
   * @param k most results, ≥ 0
   * @param accept others are left out; whenever `k` acceptable ones are there and similar enough, `k` are returned
   * @param minSimilarity less similar ones are left out
   * @returns best first; equally similar ones by id
   * @throws RangeError for another number of dimensions, and for a number as `add` refuses it
   */
  search(vector: Float32Array, k: number, accept?: AcceptId, minSimilarity?: number): VectorMatch[];
  /**
   * Does some of the work that makes later searches quicker: to be called in idle moments until it returns false.
   * Results are the same, or nearly, whether it is called or not.
   * @param budgetMs how long it may take, about
   * @returns true when there is more to do
   */
  tend(budgetMs: number): boolean;
}

/** An index whose graph can go into a file and come back from one. Its vectors stay with the code that added them. */
export interface SavableIndex extends VectorIndex {
  /** Names everything that a graph depends on besides its vectors: another one fits no saved graph. */
  readonly graphKind: string;
  /**
   * Writes the graph; until that is done `tend` does nothing.
   * @returns the ids in it by their places, null where one was removed meanwhile; null when there is no graph
   */
  saveGraph(file: string): Promise<(number | null)[] | null>;
  /**
   * Takes the graph instead of linking vectors one by one; until that is done `tend` does nothing.
   * @param ids by their places; null: not to be found any more. Vectors that are here and not among them stay unlinked
   * @throws Error when the file is no such graph; nothing has changed then
   */
  restoreGraph(file: string, ids: readonly (number | null)[]): Promise<void>;
}
