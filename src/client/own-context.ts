/**
 * What the sender needs of the platform: work outside of the agent's asynchronous context, and timers that do not hold the process.
 * src/client/edge has the same for platforms without Node's modules. Any thread.
 */
import { AsyncResource } from 'node:async_hooks';

/** A timer that can begin anew. */
export type Timer = NodeJS.Timeout;

/** @returns calls a function in the context of now, whatever the context of the caller is */
export function keepContext(): <Result>(work: () => Result) => Result {
  const context = new AsyncResource('UnderstudySender');
  return (work) => context.runInAsyncScope(work);
}

/** Does not hold the process. */
export function startTimer(work: () => void, ms: number): Timer {
  return setTimeout(work, ms).unref();
}

export function stopTimer(timer: Timer): void {
  clearTimeout(timer);
}
