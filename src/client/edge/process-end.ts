/**
 * As src/client/process-end.ts, where no process ends: the platform stops a function when its answer is there. Call
 * `context.waitUntil(understudy.flush())` before. Edge functions; any thread.
 */

/** @returns does nothing */
export function holdForExit(): () => void {
  return () => {};
}

export function noteOpen(): void {}

export function noteEnded(): void {}
