/**
 * The embedder whose model runs in the compute pool. Texts that arrive in one turn, or while the pool is busy, go
 * there together: a run of many costs far less than as many runs. Any thread; the pool is reached through a function.
 */
import { CatalogueError } from '../errors.ts';
import {
  EMBEDDING_BATCH_TEXTS,
  EMBEDDING_QUEUE_CHARACTERS,
  EMBEDDING_QUEUE_TEXTS,
  EMBEDDING_TEXT_CHARACTERS,
} from '../limits.ts';
import {
  EMBED_TASK,
  type Embedder,
  type EmbedInput,
  MODEL_TASK,
  type ModelFacts,
  splitVectors,
} from './embedder.ts';

/** Runs a task of the compute pool: `ComputePool.run`, or what `openCompute` gives. */
export type RunCompute = (task: string, input: unknown) => Promise<unknown>;

/** One call of `embed`. */
interface Request {
  vectors: Float32Array[];
  missing: number;
  /** Settled with an error: what of it still waits is dropped. */
  failed: boolean;
  resolve(vectors: Float32Array[]): void;
  reject(error: CatalogueError): void;
}

interface WaitingText {
  text: string;
  /** Its place among the texts of the request. */
  at: number;
  request: Request;
}

export class OnnxEmbedder implements Embedder {
  readonly id: string;
  readonly dimensions: number;
  readonly #compute: RunCompute;
  readonly #parallel: number;
  #waiting: WaitingText[] = [];
  #waitingCharacters = 0;
  #running = 0;
  #isScheduled = false;
  #isClosed = false;

  private constructor(compute: RunCompute, facts: ModelFacts, parallel: number) {
    this.#compute = compute;
    this.#parallel = parallel;
    this.id = facts.id;
    this.dimensions = facts.dimensions;
  }

  /**
   * Loads the model in one thread of the pool; the others load it when their first texts come.
   * @param compute see {@link RunCompute}
   * @param parallel runs under way at a time: the threads of the pool
   * @throws Error of one line when the model's folder is missing or unfit
   */
  static async open(compute: RunCompute, parallel: number): Promise<OnnxEmbedder> {
    return new OnnxEmbedder(compute, (await compute(MODEL_TASK, null)) as ModelFacts, parallel);
  }

  /** Texts that wait for a run. */
  get waiting(): number {
    return this.#waiting.length;
  }

  embed(texts: readonly string[]): Promise<Float32Array[]> {
    if (this.#isClosed) return Promise.reject(new CatalogueError('unavailable', 'The embedder is closed'));
    if (texts.length === 0) return Promise.resolve([]);
    const cut = texts.map((text) => text.slice(0, EMBEDDING_TEXT_CHARACTERS));
    const characters = cut.reduce((sum, text) => sum + text.length, 0);
    if (
      this.#waiting.length + cut.length > EMBEDDING_QUEUE_TEXTS ||
      this.#waitingCharacters + characters > EMBEDDING_QUEUE_CHARACTERS
    ) {
      return Promise.reject(new CatalogueError('unavailable', 'Too many texts wait to be embedded'));
    }
    return new Promise((resolve, reject) => {
      const request: Request = {
        vectors: new Array<Float32Array>(cut.length),
        missing: cut.length,
        failed: false,
        resolve,
        reject,
      };
      for (const [at, text] of cut.entries()) this.#waiting.push({ text, at, request });
      this.#waitingCharacters += characters;
      this.#schedule();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingCharacters = 0;
    fail(waiting, new CatalogueError('unavailable', 'The embedder is closed'));
  }

  /** After what else this turn brings. */
  #schedule(): void {
    if (this.#isScheduled || this.#running >= this.#parallel) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      while (this.#waiting.length > 0 && this.#running < this.#parallel) void this.#runBatch();
    });
  }

  async #runBatch(): Promise<void> {
    const batch = this.#waiting.splice(0, EMBEDDING_BATCH_TEXTS);
    for (const { text } of batch) this.#waitingCharacters -= text.length;
    const input: EmbedInput = { texts: batch.map(({ text }) => text) };
    this.#running++;
    try {
      const flat = (await this.#compute(EMBED_TASK, input)) as Float32Array;
      if (flat.length !== batch.length * this.dimensions) throw new Error('a vector has another length');
      const vectors = splitVectors(flat, this.dimensions);
      for (const [i, { at, request }] of batch.entries()) {
        request.vectors[at] = vectors[i]!;
        request.missing--;
        if (request.missing === 0) request.resolve(request.vectors);
      }
    } catch (thrown) {
      const error = new CatalogueError('unavailable', 'The embedding model does not answer', {
        cause: thrown,
      });
      fail(batch, error);
      this.#dropFailed();
    } finally {
      this.#running--;
      if (this.#waiting.length > 0) this.#schedule();
    }
  }

  /** The rest of a failed request is of no use to anybody. */
  #dropFailed(): void {
    this.#waiting = this.#waiting.filter(({ request }) => !request.failed);
    this.#waitingCharacters = this.#waiting.reduce((sum, { text }) => sum + text.length, 0);
  }
}

function fail(batch: readonly WaitingText[], error: CatalogueError): void {
  for (const { request } of batch) {
    request.failed = true;
    request.reject(error);
  }
}
