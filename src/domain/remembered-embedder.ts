/**
 * Remembers the vectors of the texts that were embedded last: an agent that asks again for the same task, or several that
 * work at one, cost no run of the model. Texts under way are waited for together. Any thread.
 *
 * Kept by digest: what was asked stays nowhere.
 */
import { createHash } from 'node:crypto';
import { EMBEDDING_TEXT_CHARACTERS } from '../limits.ts';
import type { TextEmbedder } from './situation-vectors.ts';

export class RememberedEmbedder {
  readonly #embedder: Pick<TextEmbedder, 'embed'>;
  readonly #textsMax: number;
  /** Used last at the end. */
  readonly #kept = new Map<string, Promise<Float32Array>>();

  /** @param textsMax vectors that are kept */
  constructor(embedder: Pick<TextEmbedder, 'embed'>, textsMax: number) {
    this.#embedder = embedder;
    this.#textsMax = textsMax;
  }

  /**
   * @returns the text's vector, which others have too: not to be changed
   * @throws what the embedder throws; it is asked again the next time
   */
  embedOne(text: string): Promise<Float32Array> {
    const cut = text.slice(0, EMBEDDING_TEXT_CHARACTERS);
    const name = createHash('sha256').update(cut, 'utf16le').digest('base64url');
    let vector = this.#kept.get(name);
    if (vector === undefined) {
      const asked = this.#embedder.embed([cut]).then(([only]) => only!);
      asked.catch(() => {
        if (this.#kept.get(name) === asked) this.#kept.delete(name);
      });
      vector = asked;
    } else {
      this.#kept.delete(name);
    }
    this.#kept.set(name, vector);
    if (this.#kept.size > this.#textsMax) this.#kept.delete(this.#kept.keys().next().value!);
    return vector;
  }
}
