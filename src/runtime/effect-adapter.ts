/**
 * Performs `io` effects: calls the adapters of a thread for its actors. Wherever actors run.
 */
import { describeError } from './error.ts';

/** An object whose async methods do an actor's external work, named by operation. */
export type EffectAdapter = object;

type Settle = (error: unknown, value: unknown) => void;

/**
 * Calls a method of an adapter.
 * @param done called once, after this function has returned; with an error if the adapter or the method is missing
 */
export function callAdapter(
  adapter: EffectAdapter | undefined,
  name: string,
  operation: string,
  input: unknown,
  done: Settle,
): void {
  const method = adapter === undefined ? undefined : (adapter as Record<string, unknown>)[operation];
  if (typeof method !== 'function') {
    setImmediate(() => done(new TypeError(`no ${operation} on adapter ${name}`), undefined));
    return;
  }
  // The promise ensures that `done` is not called before this returns, and that exceptions become outcomes.
  settleWith(
    Promise.resolve().then(() => method.call(adapter, input) as unknown),
    done,
  );
}

/** Calls `done` with the promise's outcome. */
export function settleWith(promise: Promise<unknown>, done: Settle): void {
  promise.then(
    (value) => done(null, value),
    (thrown: unknown) => done(thrown instanceof Error ? thrown : new Error(describeError(thrown)), undefined),
  );
}
