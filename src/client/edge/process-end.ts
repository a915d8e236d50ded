/**
 * Replaces src/client/process-end.ts. The platform stops a function after its answer, without an
 * event. Call `context.waitUntil(understudy.flush())` before the answer. Runs in edge functions, on
 * any thread.
 */

/** @returns does nothing */
export function holdForExit(): () => void {
  return () => {};
}

export function noteOpen(): void {}

export function noteEnded(): void {}
