/**
 * The current run of the executing code. It is kept across every await without an argument, in one
 * AsyncLocalStorage for all clients. Any thread.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** A run, with the runs that enclose it. */
interface Scope<Run> {
  run: Run;
  outer: Scope<Run> | undefined;
}

export class Ambient<Run> {
  readonly #storage = new AsyncLocalStorage<Scope<Run>>();

  /** Calls the function within the run. */
  enter<Result>(run: Run, call: () => Result): Result {
    return this.#storage.run({ run, outer: this.#storage.getStore() }, call);
  }

  /**
   * @returns the innermost enclosing run for which `fits` returns true; null if there is no such
   * run
   */
  find(fits: (run: Run) => boolean): Run | null {
    let scope = this.#storage.getStore();
    while (scope !== undefined && !fits(scope.run)) scope = scope.outer;
    return scope?.run ?? null;
  }
}
