/**
 * Merges texts that wait for an embedding at the same time: texts of one tick, and texts that arrive while the maximum
 * number of runs is in progress. One run of many texts costs far less than many runs. Any thread.
 */
import { CatalogueError } from '../errors.ts';
import { EMBEDDING_TEXT_CHARACTERS } from '../limits.ts';
import { EMBEDDING_QUEUE_CHARACTERS, EMBEDDING_QUEUE_TEXTS } from './limits.ts';

interface TextBatcherOptions {
  /** Maximum number of texts in one run. */
  batch_texts: number;
  /** Maximum number of concurrent runs. */
  parallel: number;
  /** Embeds a batch: one vector per text, in order. Errors reach the caller as `unavailable`. */
  run(texts: readonly string[]): Promise<readonly Float32Array[]>;
}

/** One call of `embed`. */
interface Request {
  vectors: Float32Array[];
  /** Number of vectors that are still missing. */
  missing: number;
  /** Whether the request has failed. Its remaining texts are then dropped. */
  has_failed: boolean;
  resolve(vectors: Float32Array[]): void;
  reject(error: CatalogueError): void;
}

interface WaitingText {
  text: string;
  /** The text's index among the texts of the request. */
  at: number;
  request: Request;
}

export class TextBatcher {
  readonly #options: TextBatcherOptions;
  #waiting: WaitingText[] = [];
  #waitingCharacters = 0;
  #running = 0;
  #isScheduled = false;
  #isClosed = false;

  constructor(options: TextBatcherOptions) {
    this.#options = options;
  }

  /** Number of texts that wait for a run. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Embeds texts in the next runs.
   * @param texts each is cut at EMBEDDING_TEXT_CHARACTERS
   * @returns one vector per text, in order
   * @throws CatalogueError `unavailable` if too many texts wait, a run fails, or the batcher is closed
   */
  embed(texts: readonly string[]): Promise<Float32Array[]> {
    if (this.#isClosed) return Promise.reject(closedError());
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
      const vectors = new Array<Float32Array>(cut.length);
      const request: Request = { vectors, missing: cut.length, has_failed: false, resolve, reject };
      for (const [at, text] of cut.entries()) this.#waiting.push({ text, at, request });
      this.#waitingCharacters += characters;
      this.#schedule();
    });
  }

  /** Fails the requests that have waiting texts. Runs in progress continue. Can be called again. */
  close(): void {
    this.#isClosed = true;
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingCharacters = 0;
    failAll(waiting, closedError());
  }

  /** Starts runs at the end of the turn, so that all texts of the turn join them. */
  #schedule(): void {
    if (this.#isScheduled || this.#running >= this.#options.parallel) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#runWaiting();
    });
  }

  #runWaiting(): void {
    while (this.#waiting.length > 0 && this.#running < this.#options.parallel) void this.#runBatch();
  }

  async #runBatch(): Promise<void> {
    const batch = this.#waiting.splice(0, this.#options.batch_texts);
    for (const { text } of batch) this.#waitingCharacters -= text.length;
    this.#running++;
    let isRunning = true;
    try {
      const vectors = await this.#options.run(batch.map(({ text }) => text));
      // The next run starts first, so that the model does not wait for the callers' work with these vectors.
      this.#running--;
      isRunning = false;
      this.#runWaiting();
      if (vectors.length !== batch.length) throw new Error('the model gave another number of vectors');
      for (const [i, { at, request }] of batch.entries()) {
        request.vectors[at] = vectors[i]!;
        request.missing--;
        if (request.missing === 0) request.resolve(request.vectors);
      }
    } catch (thrown) {
      const detail = 'The embedding model does not answer';
      failAll(batch, new CatalogueError('unavailable', detail, { cause: thrown }));
      this.#dropFailed();
    } finally {
      if (isRunning) this.#running--;
      if (this.#waiting.length > 0) this.#schedule();
    }
  }

  /** Drops the remaining texts of failed requests. */
  #dropFailed(): void {
    this.#waiting = this.#waiting.filter(({ request }) => !request.has_failed);
    this.#waitingCharacters = this.#waiting.reduce((sum, { text }) => sum + text.length, 0);
  }
}

function closedError(): CatalogueError {
  return new CatalogueError('unavailable', 'The embedder is closed');
}

function failAll(batch: readonly WaitingText[], error: CatalogueError): void {
  for (const { request } of batch) {
    request.has_failed = true;
    request.reject(error);
  }
}
