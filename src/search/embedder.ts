/**
 * Turns text into vectors, behind one narrow interface: an ONNX model in the compute pool (onnx-embedder.ts), or a
 * remote service (remote-embedder.ts). Searches use only this interface. Interface; any thread.
 */

/**
 * Turns texts into vectors. Only vectors of the same embedder are comparable, so a store saves the `id` beside them.
 */
export interface Embedder {
  /** Changes whenever the vectors would change: with the model's bytes, the service or its model name. */
  readonly id: string;
  /** Length of every vector; 0 until a remote service has answered for the first time. */
  readonly dimensions: number;
  /**
   * @param texts of any length and content; each is cut at the model's limit, and may be empty
   * @returns one vector of length 1 per text, in order; all zeros for a text without content
   * @throws CatalogueError `unavailable` if too many texts wait, or the model does not answer
   */
  embed(texts: readonly string[]): Promise<Float32Array[]>;
  /** Closes connections, and fails waiting requests. Can be called again. */
  close(): Promise<void>;
}

/** Tasks of the compute pool: `context.compute(EMBED_TASK, input)` in an actor, `ComputePool.run` elsewhere. */
export const EMBED_TASK = 'embed';
export const MODEL_TASK = 'embedding_model';
export const RELEASE_TASK = 'embedding_release';

/** Selects a model: by default that of the folder with which the pool was started. */
export interface ModelInput {
  /** Absolute path of another model's folder. */
  model_dir?: string;
}

export interface EmbedInput extends ModelInput {
  texts: readonly string[];
}

/** The result of EMBED_TASK: the vectors, one after another. */
export type EmbedOutput = Float32Array;

/** Answer to MODEL_TASK. */
export interface ModelFacts {
  id: string;
  dimensions: number;
}

/** Splits the result of EMBED_TASK. The vectors share its memory, so copy a vector that is kept for long. */
export function splitVectors(flat: EmbedOutput, dimensions: number): Float32Array[] {
  const vectors: Float32Array[] = [];
  for (let at = 0; at < flat.length; at += dimensions) vectors.push(flat.subarray(at, at + dimensions));
  return vectors;
}

/**
 * Scales a vector to length 1, in place, and returns it. A zero vector stays unchanged. If a number or the length is
 * not finite, all numbers become zeros.
 */
export function normalise(vector: Float32Array): Float32Array {
  let sum = 0;
  for (let i = 0; i < vector.length; i++) sum += vector[i]! * vector[i]!;
  const length = Math.sqrt(sum);
  if (!(length > 0) || length === Number.POSITIVE_INFINITY) return vector.fill(0);
  for (let i = 0; i < vector.length; i++) vector[i]! /= length;
  return vector;
}
