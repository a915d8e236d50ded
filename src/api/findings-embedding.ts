/**
 * Embeds findings that were stored without a vector because the model did not answer, or whose model has changed. The
 * work runs in the background, one code base at a time. Failures are retried until {@link FindingsEmbedding.close}.
 * Server threads.
 */

import type { FindingsClient } from '../../actors/findings-index/client.ts';
import type { Codebase } from '../domain/finding.ts';
import type { Embedder } from '../search/embedder.ts';

interface FindingsEmbeddingOptions {
  /** Number of findings that are embedded and written at once. */
  batch: number;
  /** Wait after the first failure; doubles with each further failure, up to `retry_max_ms`. */
  retry_ms: number;
  retry_max_ms: number;
  /** Maximum number of waiting code bases. Further ones are left out until their next request. */
  max_waiting: number;
}

const DEFAULT_EMBEDDING_OPTIONS: FindingsEmbeddingOptions = {
  batch: 32,
  retry_ms: 1_000,
  retry_max_ms: 60_000,
  max_waiting: 10_000,
};

/** Called after every batch. `left`: remaining findings of this code base. */
type EmbeddingProgress = (codebase: Codebase, embedded: number, left: number) => void;

export class FindingsEmbedding {
  readonly #findings: FindingsClient;
  readonly #embedder: Embedder;
  readonly #onProgress: EmbeddingProgress;
  readonly #options: FindingsEmbeddingOptions;
  readonly #waiting = new Map<string, Codebase>();
  readonly #stopped = new AbortController();
  #running: Promise<void> | null = null;

  constructor(
    findings: FindingsClient,
    embedder: Embedder,
    onProgress: EmbeddingProgress = () => {},
    options: Partial<FindingsEmbeddingOptions> = {},
  ) {
    this.#findings = findings;
    this.#embedder = embedder;
    this.#onProgress = onProgress;
    this.#options = { ...DEFAULT_EMBEDDING_OPTIONS, ...options };
  }

  /** Queues every code base that needs vectors, up to `max_waiting`. Call it at start, on one thread. */
  tendAll(): void {
    for (const codebase of this.#findings.outdated()) {
      if (this.#waiting.size >= this.#options.max_waiting) return;
      this.tend(codebase);
    }
  }

  /** Queues the code base. Does nothing if `max_waiting` code bases wait, or after {@link close}. */
  tend({ org_id, codebase_id }: Codebase): void {
    if (this.#stopped.signal.aborted || this.#waiting.size >= this.#options.max_waiting) return;
    this.#waiting.set(JSON.stringify([org_id, codebase_id]), { org_id, codebase_id });
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
  }

  /** Resolves when nothing waits any more. */
  async settled(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  /** Drops the queue, and waits for the batch in progress. The next start continues the remaining work. */
  async close(): Promise<void> {
    this.#stopped.abort();
    this.#waiting.clear();
    await this.#running;
  }

  async #run(): Promise<void> {
    let pauseMs = this.#options.retry_ms;
    for (;;) {
      const next = this.#waiting.entries().next();
      if (next.done === true) return;
      const [key, codebase] = next.value;
      this.#waiting.delete(key);
      try {
        await this.#embedAll(codebase);
        pauseMs = this.#options.retry_ms;
      } catch {
        if (this.#stopped.signal.aborted) return;
        // Move the code base to the end of the queue, because other code bases may not fail.
        this.#waiting.set(key, codebase);
        await this.#pause(pauseMs);
        pauseMs = Math.min(2 * pauseMs, this.#options.retry_max_ms);
      }
    }
  }

  async #embedAll(codebase: Codebase): Promise<void> {
    for (let left = 1; left > 0 && !this.#stopped.signal.aborted; ) {
      const { places } = await this.#findings.unembedded(codebase, this.#options.batch);
      const found = places.flatMap((place) => {
        const content = this.#findings.rows.find(codebase, place)?.content;
        return content === undefined ? [] : [{ place, content }];
      });
      if (found.length === 0) {
        // All findings have vectors. Record that, so that the code base is not checked again.
        if (places.length === 0) await this.#findings.embedded(codebase, []);
        return;
      }
      const vectors = await this.#embedder.embed(found.map(({ content }) => content));
      const reply = await this.#findings.embedded(
        codebase,
        found.map(({ place }, at) => ({ ...place, vector: vectors[at]! })),
      );
      left = reply.left;
      this.#onProgress(codebase, found.length, left);
    }
  }

  #pause(ms: number): Promise<void> {
    const { signal } = this.#stopped;
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      timer.unref();
      signal.addEventListener('abort', end);
    });
  }
}
