/**
 * Finds the nearest of many vectors, behind one narrow interface. Implementations: exact-index.ts compares with every
 * vector; hnsw-index.ts searches a graph, with an exact index for vectors that are not in the graph yet. One test
 * suite covers both. Vectors have length 1, so the inner product is the cosine. Interface; any thread. Each index
 * belongs to one thread.
 */

/** One vector that was found. */
export interface VectorMatch {
  id: number;
  /** Cosine, −1 … 1 except for rounding. */
  similarity: number;
}

/** Whether an id may be among the results. Called often, so it must be cheap and without side effects. */
export type AcceptId = (id: number) => boolean;

export interface VectorIndex {
  readonly dimensions: number;
  /** Number of vectors in the index. */
  readonly size: number;
  /** Memory of vectors and graph, both in JavaScript's heap and outside. */
  readonly bytes: number;
  /** Number of vectors for which `tend` still has work to do. */
  readonly unlinked: number;
  /** The same index if it has a graph that can be saved; otherwise null. */
  readonly savable: SavableIndex | null;
  /**
   * Adds a vector, or replaces the vector with this id. The next search finds it.
   * @param id integer, 0 … 2^32 − 1; the id of a removed vector may be used again
   * @param vector of length 1, or all zeros (similar to nothing); copied
   * @throws RangeError for an invalid id, a wrong number of dimensions, or a number that is not finite or beyond
   *   VECTOR_NUMBER_MAX; then nothing has changed
   */
  add(id: number, vector: Float32Array): void;
  /** Removes a vector. Returns false if there was no such vector. */
  remove(id: number): boolean;
  has(id: number): boolean;
  /**
   * Returns a copy of the vector, with the numbers as the index stores them (rounded); undefined for an unknown id.
   */
  get(id: number): Float32Array | undefined;
  /**
   * Finds the vectors that are most similar to `vector`.
   * @param vector of length 1
   * @param k maximum number of results, ≥ 0
   * @param accept filters ids; if at least `k` accepted vectors are similar enough, `k` results are returned
   * @param minSimilarity minimum similarity of a result
   * @returns best first; equally similar results by id
   * @throws RangeError for a wrong number of dimensions, or a number that `add` would refuse
   */
  search(vector: Float32Array, k: number, accept?: AcceptId, minSimilarity?: number): VectorMatch[];
  /**
   * Does a part of the work that makes later searches faster. Call it in idle moments until it returns false. Results
   * are the same, or nearly, whether it is called or not.
   * @param budgetMs approximate time limit
   * @returns true if there is more to do
   */
  tend(budgetMs: number): boolean;
}

/** An index whose graph can be saved to a file and restored. The caller keeps its vectors. */
export interface SavableIndex extends VectorIndex {
  /** Identifies everything, besides the vectors, on which a saved graph depends. */
  readonly graphKind: string;
  /**
   * Writes the graph; meanwhile `tend` does nothing.
   * @returns the ids in the file by their positions, with null for vectors that were removed meanwhile; null without a
   *   graph
   */
  saveGraph(file: string): Promise<(number | null)[] | null>;
  /**
   * Uses the saved graph instead of linking vectors one by one; meanwhile `tend` does nothing.
   * @param ids the ids by their positions in the file; null for a vector that must not be found any more. Vectors of
   * the index without an id in the list stay unlinked
   * @throws Error if the file is not such a graph; then nothing has changed
   */
  restoreGraph(file: string, ids: readonly (number | null)[]): Promise<void>;
}
