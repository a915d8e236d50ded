/** The lifecycle of the pattern store: what runs alone, what waits, and that both end when it is closed. Actor thread. */
import { CatalogueError } from '../../src/errors.ts';

export class StoreLifecycle {
  /** Writes come one after another. */
  #writing: Promise<unknown> = Promise.resolve();
  #isOver = false;
  readonly #wakes = new Set<() => void>();

  get isOver(): boolean {
    return this.#isOver;
  }

  /** @throws CatalogueError `unavailable` when the store was closed before its turn came, or what `work` throws */
  alone<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.#writing.then(() => {
      if (this.#isOver) throw new CatalogueError('unavailable', 'The pattern store is closed');
      return work();
    });
    this.#writing = done.catch(() => {});
    return done;
  }

  /** Ends early when the store is closed; keeps no process alive. */
  pause(ms: number): Promise<void> {
    if (this.#isOver) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#wakes.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      timer.unref();
      this.#wakes.add(wake);
    });
  }

  /** Ends what waits; resolves when the write under way has ended. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (const wake of this.#wakes) wake();
    await this.#writing.catch(() => {});
  }
}

/** Leaves the thread to others for a moment. */
export function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Longest stretch of work before the thread is left to others. */
export const STRETCH_MS = 5;
/** How often long work reports its progress. */
export const PROGRESS_EVERY_MS = 5_000;
/** After an embedder or a disk that does not answer: the first wait, doubled up to the last. */
export const RETRY_FIRST_MS = 1_000;
export const RETRY_MAX_MS = 60_000;
