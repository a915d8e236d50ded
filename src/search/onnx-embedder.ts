/**
 * The embedder whose model runs in the compute pool (src/threads/compute-thread-entry.ts). Any thread; it accesses
 * the pool through a function.
 */

import {
  EMBED_TASK,
  type Embedder,
  type EmbedInput,
  type EmbedOutput,
  MODEL_TASK,
  type ModelFacts,
  type ModelInput,
  RELEASE_TASK,
  splitVectors,
} from './embedder.ts';
import { EMBEDDING_BATCH_TEXTS } from './limits.ts';
import { TextBatcher } from './text-batcher.ts';

/** Runs a task of the compute pool: `ComputePool.run`, or the result of `openCompute`. */
export type RunCompute = (task: string, input: unknown) => Promise<unknown>;

export class OnnxEmbedder implements Embedder {
  readonly id: string;
  readonly dimensions: number;
  readonly #batcher: TextBatcher;
  readonly #release: () => void;

  private constructor(
    compute: RunCompute,
    facts: ModelFacts,
    parallel: number,
    modelDir: string | undefined,
  ) {
    const model = modelDir === undefined ? {} : { model_dir: modelDir };
    this.#release = () => {
      if (modelDir !== undefined) compute(RELEASE_TASK, model).catch(() => {});
    };
    this.id = facts.id;
    this.dimensions = facts.dimensions;
    this.#batcher = new TextBatcher({
      batch_texts: EMBEDDING_BATCH_TEXTS,
      parallel,
      run: async (texts) => {
        const input: EmbedInput = { texts, ...model };
        return splitVectors((await compute(EMBED_TASK, input)) as EmbedOutput, facts.dimensions);
      },
    });
  }

  /**
   * Loads the model on one pool thread; other threads load it with their first texts.
   * @param compute see {@link RunCompute}
   * @param parallel maximum number of concurrent runs; at most the number of threads in the pool is useful
   * @param modelDir folder of another model than the pool's; this model is released when the embedder is closed
   * @throws Error with a one-line message if the model's folder is missing or unsuitable
   */
  static async open(compute: RunCompute, parallel: number, modelDir?: string): Promise<OnnxEmbedder> {
    const input: ModelInput = modelDir === undefined ? {} : { model_dir: modelDir };
    return new OnnxEmbedder(compute, (await compute(MODEL_TASK, input)) as ModelFacts, parallel, modelDir);
  }

  /** Number of texts that wait for a run. */
  get waiting(): number {
    return this.#batcher.waiting;
  }

  embed(texts: readonly string[]): Promise<Float32Array[]> {
    return this.#batcher.embed(texts);
  }

  async close(): Promise<void> {
    this.#batcher.close();
    this.#release();
  }
}
