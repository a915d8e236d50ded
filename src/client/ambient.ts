/**
 * The current run of the executing code. One AsyncLocalStorage for all clients keeps it across every await, so code
 * need not pass the run. Any thread.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** A run and the scope that encloses it. */
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

  /** Finds the innermost enclosing run for which `fits` returns true; null if there is no such run. */
  find(fits: (run: Run) => boolean): Run | null {
    let scope = this.#storage.getStore();
    while (scope !== undefined && !fits(scope.run)) scope = scope.outer;
    return scope?.run ?? null;
  }
}
