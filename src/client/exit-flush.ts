/**
 * Gives what waits to be sent a last chance when the process has nothing else to do. One listener for all clients. It cannot
 * help where the process is ended (`process.exit`, a signal): there `flush()` comes first. Main thread and workers alike.
 */

/** How long a process that has done its work is held at most. */
const EXIT_FLUSH_MS = 2_000;

/** Sends what it has within so many milliseconds, and drops the rest. */
type LastFlush = (timeoutMs: number) => Promise<void>;

const waiting = new Set<LastFlush>();
let isListening = false;

/** @returns takes it back: there is nothing left to send */
export function holdForExit(flush: LastFlush): () => void {
  waiting.add(flush);
  if (!isListening) process.on('beforeExit', flushAll);
  isListening = true;
  return () => waiting.delete(flush);
}

function flushAll(): void {
  for (const flush of waiting) {
    waiting.delete(flush);
    void flush(EXIT_FLUSH_MS);
  }
}
