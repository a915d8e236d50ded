/**
 * The configured embedder, for a round. It loads with the first text; if that fails, the round continues without it.
 * The round's own thread.
 */

import type { Config } from '../config.ts';
import { EMBED_TASK, type Embedder, type EmbedInput, MODEL_TASK } from '../search/embedder.ts';

export class TextEmbedder {
  readonly #choice: Config['embedding'];
  readonly #warn: (words: string) => void;
  #opening: Promise<Embedder | null> | null = null;

  /** @param warn called once if texts cannot be embedded */
  constructor(choice: Config['embedding'], warn: (words: string) => void) {
    this.#choice = choice;
    this.#warn = warn;
  }

  /**
   * Embeds texts.
   * @returns vectors of length 1; null when embedding is impossible
   */
  async embed(texts: readonly string[]): Promise<Float32Array[] | null> {
    if (texts.length === 0) return [];
    this.#opening ??= this.#open();
    const embedder = await this.#opening;
    if (embedder === null) return null;
    try {
      return await embedder.embed(texts);
    } catch (error) {
      this.#giveUp(error);
      return null;
    }
  }

  async close(): Promise<void> {
    await (await this.#opening)?.close();
  }

  async #open(): Promise<Embedder | null> {
    try {
      const [{ findModelDir, openEmbedder }, { OnnxModel }] = await Promise.all([
        import('../search/open-embedder.ts'),
        import('../search/onnx-model.ts'),
      ]);
      let model: ReturnType<typeof OnnxModel.open> | null = null;
      const compute = async (task: string, input: unknown): Promise<unknown> => {
        model ??= OnnxModel.open(findModelDir(this.#choice));
        if (task === MODEL_TASK) return (await model).facts;
        if (task === EMBED_TASK) return (await model).embed((input as EmbedInput).texts);
        throw new TypeError(`no task is called ${task}`);
      };
      return await openEmbedder(this.#choice, compute, 1);
    } catch (error) {
      this.#giveUp(error);
      return null;
    }
  }

  #giveUp(error: unknown): void {
    this.#opening = Promise.resolve(null);
    this.#warn(
      `near-duplicates among the patterns are not found, because texts cannot be embedded: ${(error as Error).message}`,
    );
  }
}
