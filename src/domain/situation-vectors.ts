/**
 * Situations as vectors: the embedder's vector of the whole text, both for searches and for comparing two situations.
 * Any thread.
 */

/** Turns texts into vectors of length 1; `Embedder` of src/search is one. */
export interface TextEmbedder {
  /** Changes with the model. */
  readonly id: string;
  embed(texts: readonly string[]): Promise<Float32Array[]>;
}

/**
 * Names the vectors that this embedder makes of stored situations. The name changes with the embedder and with the way
 * in which a situation is embedded.
 */
export function situationVectorsId(embedder: Pick<TextEmbedder, 'id'>): string {
  return `${embedder.id}+whole`;
}

/**
 * Names the vectors that the same embedder made in an earlier way, which emphasized the first sentence. These vectors
 * still find a pattern until it is embedded again.
 */
export function formerSituationVectorsId(embedder: Pick<TextEmbedder, 'id'>): string {
  return `${embedder.id}+task2`;
}

/** Computes the cosine of two unit vectors. */
export function cosineOf(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
