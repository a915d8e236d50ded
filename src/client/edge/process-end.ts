/**
 * Replaces src/client/process-end.ts with a function that does nothing. The platform stops an edge function after its
 * answer without an event that could flush the queue. Call `context.waitUntil(understudy.flush())` before the answer.
 * Runs in edge functions, on any thread.
 */

/** Does nothing. @returns a function that does nothing */
export function holdForExit(): () => void {
  return () => {};
}

export function noteOpen(): void {}

export function noteEnded(): void {}
