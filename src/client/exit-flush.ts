/**
 * Sends what still waits when the process has nothing else to do. One listener for all clients. It cannot
 * help where something ends the process (`process.exit`, a signal): call `flush()` before. Main thread and workers alike.
 */

/** Sends what it has within a time of its own, and drops the rest. */
type LastFlush = () => Promise<void>;

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
    void flush();
  }
}
