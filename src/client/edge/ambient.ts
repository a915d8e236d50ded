/**
 * Replaces src/client/ambient.ts. On platforms with a global AsyncLocalStorage (Vercel), the
 * current run is kept across every await. On other platforms, only code before the first await
 * finds the current run, so pass the run explicitly. Runs in edge functions, on any thread.
 */

/** A run and the scope that encloses it. */
interface Scope<Run> {
  run: Run;
  outer: Scope<Run> | undefined;
}

interface Storage<Value> {
  getStore(): Value | undefined;
  run<Result>(value: Value, call: () => Result): Result;
}

type StorageClass = new <Value>() => Storage<Value>;

/** The storage for platforms without AsyncLocalStorage. It has a value only until the first await. */
class SynchronousStorage<Value> implements Storage<Value> {
  #value: Value | undefined;

  getStore(): Value | undefined {
    return this.#value;
  }

  run<Result>(value: Value, call: () => Result): Result {
    const outer = this.#value;
    this.#value = value;
    try {
      return call();
    } finally {
      this.#value = outer;
    }
  }
}

const { AsyncLocalStorage: Given = SynchronousStorage } = globalThis as { AsyncLocalStorage?: StorageClass };

export class Ambient<Run> {
  readonly #storage: Storage<Scope<Run>> = new Given<Scope<Run>>();

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
