/**
 * Caches the vectors of recently embedded texts. So a repeated request for the same task, by one agent or by several,
 * needs no run of the model. Concurrent requests for the same text share one run. Any thread. The cache stores vectors
 * by digest, and no texts. Vectors are copied into and out of one array. As separate objects that live until a thousand
 * later texts are embedded, they would cause a collection of the whole heap every second.
 */
import { hash } from 'node:crypto';
import { EMBEDDING_TEXT_CHARACTERS } from '../limits.ts';
import type { TextEmbedder } from './situation-vectors.ts';

/** Maximum number of remembered vectors of retrieval texts. Those that were not used for the longest time are dropped. */
export const EMBEDDINGS_REMEMBERED = 1_024;

export class RememberedEmbedder {
  readonly #embedder: Pick<TextEmbedder, 'embed'>;
  readonly #textsMax: number;
  readonly #underWay = new Map<string, Promise<Float32Array>>();
  /** The index of each text's vector; the most recently used is last. */
  readonly #places = new Map<string, number>();
  /** All vectors, one after another; allocated when the first one is known. */
  #vectors = new Float32Array(0);
  #dimensions = 0;

  /** @param textsMax maximum number of vectors that are kept */
  constructor(embedder: Pick<TextEmbedder, 'embed'>, textsMax: number) {
    this.#embedder = embedder;
    this.#textsMax = textsMax;
  }

  /**
   * Embeds a text, or finds its vector in the cache.
   * @returns the text's vector. Concurrent calls for the same text get the same array: do not change it
   * @throws the embedder's error; the next call tries again
   */
  async embedOne(text: string): Promise<Float32Array> {
    const cut = text.slice(0, EMBEDDING_TEXT_CHARACTERS);
    const name = hash('sha256', cut, 'base64url');
    const place = this.#places.get(name);
    if (place !== undefined) {
      this.#places.delete(name);
      this.#places.set(name, place);
      const start = place * this.#dimensions;
      return this.#vectors.slice(start, start + this.#dimensions);
    }
    let asked = this.#underWay.get(name);
    if (asked === undefined) {
      asked = this.#ask(name, cut).finally(() => this.#underWay.delete(name));
      this.#underWay.set(name, asked);
    }
    return asked;
  }

  async #ask(name: string, text: string): Promise<Float32Array> {
    const [vector] = await this.#embedder.embed([text]);
    this.#keep(name, vector!);
    return vector!;
  }

  #keep(name: string, vector: Float32Array): void {
    if (this.#dimensions === 0) {
      this.#dimensions = vector.length;
      this.#vectors = new Float32Array(this.#textsMax * vector.length);
    }
    // An embedding service may change the length of its vectors.
    if (vector.length !== this.#dimensions) return;
    let place = this.#places.size;
    if (place === this.#textsMax) {
      const [oldest] = this.#places;
      place = oldest![1];
      this.#places.delete(oldest![0]);
    }
    this.#vectors.set(vector, place * this.#dimensions);
    this.#places.set(name, place);
  }
}
