/**
 * The process's own log: JSON lines on standard error, from LOG_LEVEL on. It holds no bodies, no headers, no secrets.
 * Mistakes of callers are reported to the callers and not logged. Any thread, each its own.
 */
import { type Logger, pino } from 'pino';
import { LineWriter, STDERR } from './std/line-writer.ts';

export type Log = Logger;

/**
 * @param level of the least important line to write; `silent` for none
 * @returns a logger that writes at once, so that the last line before the process ends is not lost
 */
export function createLog(level: string): Logger {
  return pino(
    { level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` },
    new LineWriter(STDERR),
  );
}
