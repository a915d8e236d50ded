/** A wait for work that may never end, at the end of a process. Main thread. */

/**
 * Waits until the work settles, the limit passes, or nothing else keeps the process alive. In the last case, Node would
 * otherwise exit with status 13, because an `await` is unsettled.
 * @param work its failure counts as its end
 */
export async function waitAtEnd(work: Promise<unknown>, limit_ms: number): Promise<void> {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, limit_ms).unref();
  const onIdle = (): void => resolve();
  process.once('beforeExit', onIdle);
  try {
    await Promise.race([work.catch(() => {}), over]);
  } finally {
    clearTimeout(timer);
    process.off('beforeExit', onIdle);
  }
}
