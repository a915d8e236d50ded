/**
 * Merges the texts that several threads send during a run of a model into the next run, because one run of many texts
 * costs far less than many runs. It refuses no text: callers bound the waiting texts (text-batcher.ts). Compute
 * threads.
 */
import { EMBEDDING_BATCH_TEXTS } from './limits.ts';

/** Embeds texts: returns the vectors, one after another. */
type Embed = (texts: readonly string[]) => Promise<Float32Array>;

interface Asked {
  texts: readonly string[];
  resolve(vectors: Float32Array): void;
  reject(thrown: unknown): void;
}

export class MergedRuns {
  readonly #embed: Embed;
  #waiting: Asked[] = [];
  #isRunning = false;

  constructor(embed: Embed) {
    this.#embed = embed;
  }

  /** Returns the vectors, one after another. Rejects with the error of the run. */
  embed(texts: readonly string[]): Promise<Float32Array> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ texts, resolve, reject });
      if (!this.#isRunning) this.#start();
    });
  }

  /** Starts a run after all messages that have arrived are handled, so that their texts join it. */
  #start(): void {
    this.#isRunning = true;
    setImmediate(() => void this.#run());
  }

  async #run(): Promise<void> {
    const merged = this.#take();
    try {
      const vectors = await this.#embed(merged.flatMap(({ texts }) => texts));
      const count = merged.reduce((sum, { texts }) => sum + texts.length, 0);
      let from = 0;
      for (const { texts, resolve } of merged) {
        const to = from + (texts.length * vectors.length) / Math.max(1, count);
        resolve(vectors.subarray(from, to));
        from = to;
      }
    } catch (thrown) {
      for (const { reject } of merged) reject(thrown);
    }
    this.#isRunning = false;
    if (this.#waiting.length > 0) this.#start();
  }

  /** Takes the oldest requests whose texts fit into one run together; at least one request. */
  #take(): Asked[] {
    let texts = 0;
    const end = this.#waiting.findIndex((asked, at) => {
      texts += asked.texts.length;
      return at > 0 && texts > EMBEDDING_BATCH_TEXTS;
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }
}
