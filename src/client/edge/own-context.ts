/**
 * Replaces src/client/own-context.ts, with functions that every platform has. Runs in edge functions, on any thread.
 */

/** A timer that can be restarted. */
export interface Timer {
  refresh(): Timer;
  stop(): void;
}

/**
 * Keeps nothing, because these platforms have no asynchronous context.
 * @returns a function that only calls its argument
 */
export function keepContext(): <Result>(work: () => Result) => Result {
  return (work) => work();
}

export function startTimer(work: () => void, ms: number): Timer {
  let id = setTimeout(work, ms);
  const timer: Timer = {
    refresh: () => {
      clearTimeout(id);
      id = setTimeout(work, ms);
      return timer;
    },
    stop: () => clearTimeout(id),
  };
  return timer;
}

export function stopTimer(timer: Timer): void {
  timer.stop();
}
