/**
 * Platform functions of the sender: running code outside the agent's asynchronous context, and
 * timers that do not keep the process alive. src/client/edge/own-context.ts has the same functions
 * for platforms without Node's modules. Any thread.
 */
import { AsyncResource } from 'node:async_hooks';

/** A timer that can be restarted. */
export type Timer = NodeJS.Timeout;

/** Keeps the current context. @returns a function that calls its argument in that context */
export function keepContext(): <Result>(work: () => Result) => Result {
  const context = new AsyncResource('UnderstudySender');
  return (work) => context.runInAsyncScope(work);
}

/** Starts a timer that does not keep the process alive. */
export function startTimer(work: () => void, ms: number): Timer {
  return setTimeout(work, ms).unref();
}

export function stopTimer(timer: Timer): void {
  clearTimeout(timer);
}
