/**
 * What turns text into vectors, behind one narrow interface: an ONNX model in the compute pool (onnx-embedder.ts), or
 * a remote service (remote-embedder.ts). Searches know nothing but this. Interface; any thread.
 */

/** Vectors of one embedder are comparable with each other only: a store keeps the `id` beside what it embedded. */
export interface Embedder {
  /** Changes whenever the vectors would: with the model's bytes, the service or its model name. */
  readonly id: string;
  /** Length of every vector; 0 as long as a remote service has not answered for the first time. */
  readonly dimensions: number;
  /**
   * @param texts any length and content; each is cut at the bound of the model, an empty one is allowed
   * @returns one vector of length 1 per text, in order; all zeros for a text in which there is nothing to embed
   * @throws CatalogueError `unavailable` when too many texts wait already, or the model cannot answer now
   */
  embed(texts: readonly string[]): Promise<Float32Array[]>;
  /** Lets go of connections and of what waits, which fails. May be called again. */
  close(): Promise<void>;
}

/** Tasks of the compute pool: `context.compute(EMBED_TASK, input)` in an actor, `ComputePool.run` elsewhere. */
export const EMBED_TASK = 'embed';
export const MODEL_TASK = 'embedding_model';
export const RELEASE_TASK = 'embedding_release';

/** Which model: that of the folder which the pool was started with, or another one's. */
export interface ModelInput {
  /** Absolute. */
  model_dir?: string;
}

export interface EmbedInput extends ModelInput {
  texts: readonly string[];
}

/** Answer to EMBED_TASK: the vectors one behind the other. */
export type EmbedOutput = Float32Array;

/** Answer to MODEL_TASK. */
export interface ModelFacts {
  id: string;
  dimensions: number;
}

/** Takes the answer to EMBED_TASK apart. The vectors share its memory: copy one that you keep for long. */
export function splitVectors(flat: EmbedOutput, dimensions: number): Float32Array[] {
  const vectors: Float32Array[] = [];
  for (let at = 0; at < flat.length; at += dimensions) vectors.push(flat.subarray(at, at + dimensions));
  return vectors;
}

/** Scales to length 1, in place; zeros stay, and numbers that are not finite become zeros. */
export function normalise(vector: Float32Array): Float32Array {
  let sum = 0;
  for (let i = 0; i < vector.length; i++) sum += vector[i]! * vector[i]!;
  const length = Math.sqrt(sum);
  if (!(length > 0) || length === Number.POSITIVE_INFINITY) return vector.fill(0);
  for (let i = 0; i < vector.length; i++) vector[i]! /= length;
  return vector;
}
