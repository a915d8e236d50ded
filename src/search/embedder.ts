/**
 * What turns text into vectors, behind one narrow interface: an ONNX model in the compute pool, or a remote service.
 * Whoever searches knows nothing but this. Interface only; any thread.
 */

/** Vectors of one embedder are comparable with each other only: a store keeps the `id` beside what it embedded. */
export interface Embedder {
  /** Changes whenever the vectors would: with the model's bytes, the service or its model name. */
  readonly id: string;
  /** Length of every vector. */
  readonly dimensions: number;
  /**
   * @param texts any length and content; each is cut at the bound of the model, an empty one is allowed
   * @returns one vector of length 1 per text, in order; all zeros for a text in which there is nothing to embed
   * @throws CatalogueError `unavailable` when too many texts wait already, or the model cannot answer now
   */
  embed(texts: readonly string[]): Promise<Float32Array[]>;
  /** Lets go of threads and connections; what is under way fails. May be called again. */
  close(): Promise<void>;
}
