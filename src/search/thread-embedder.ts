/**
 * The embedder of a thread that may never need it. It is opened with the first text, and again after a failure. Actor
 * threads and server threads.
 */
import type { Embedder } from './embedder.ts';

export class ThreadEmbedder {
  readonly #openOne: () => Promise<Embedder>;
  #opened: Promise<Embedder> | null = null;

  /** @param open opens the embedder */
  constructor(open: () => Promise<Embedder>) {
    this.#openOne = open;
  }

  /** Returns the open embedder. Rejects with the error of opening it. */
  open(): Promise<Embedder> {
    if (this.#opened === null) {
      const opening = this.#openOne();
      opening.catch(() => {
        if (this.#opened === opening) this.#opened = null;
      });
      this.#opened = opening;
    }
    return this.#opened;
  }

  async embed(texts: readonly string[]): Promise<Float32Array[]> {
    return (await this.open()).embed(texts);
  }

  async close(): Promise<void> {
    const embedder = await this.#opened?.catch(() => null);
    await embedder?.close();
  }
}
