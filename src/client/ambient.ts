/**
 * The run of the code that is executing, kept across every await without passing an argument: one AsyncLocalStorage
 * of this library for all clients. Any thread.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** A run, with the runs around it. */
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
   * @returns the innermost enclosing run that fits; otherwise null
   */
  find(fits: (run: Run) => boolean): Run | null {
    let scope = this.#storage.getStore();
    while (scope !== undefined && !fits(scope.run)) scope = scope.outer;
    return scope?.run ?? null;
  }
}
