/**
 * The lifecycle of the pattern store: runs exclusive work, one after the other, provides pauses, and ends both when the
 * store is closed. Actor thread.
 */
import { CatalogueError } from '../../src/errors.ts';

export class StoreLifecycle {
  /** The last queued write. Each write begins after the previous one has ended. */
  #writing: Promise<unknown> = Promise.resolve();
  #isOver = false;
  readonly #wakes = new Set<() => void>();

  /** Whether the store is closed or being closed. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Runs `work` after all earlier work of this method has ended.
   * @throws CatalogueError `unavailable` if the store was closed before `work` began, or the error of `work`
   */
  alone<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.#writing.then(() => {
      if (this.#isOver) throw new CatalogueError('unavailable', 'The pattern store is closed');
      return work();
    });
    this.#writing = done.catch(() => {});
    return done;
  }

  /** Waits. Ends early when the store is closed, and does not keep the process alive. */
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

  /** Ends all waits; resolves when the current write has ended. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (const wake of this.#wakes) wake();
    await this.#writing.catch(() => {});
  }
}

/** Gives other work of the thread a turn. */
export function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Maximum time that work runs before other work of the thread gets a turn. */
export const STRETCH_MS = 5;
/** How often long work reports its progress. */
export const PROGRESS_EVERY_MS = 5_000;
/** Delay after an error of the embedder or the disk. It doubles from the first value to the last. */
export const RETRY_FIRST_MS = 1_000;
export const RETRY_MAX_MS = 60_000;
