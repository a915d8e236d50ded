/**
 * The process's own log: JSON lines on standard error, from the level LOG_LEVEL on. It has no bodies, no headers and no
 * secrets. Mistakes of callers are reported to the callers and not logged. Any thread; each thread has its own logger.
 */
import { type Logger, pino } from 'pino';
import { LineWriter, STDERR } from './std/line-writer.ts';

export type Log = Logger;

/**
 * Makes a logger. It writes each line at once, so that the last line before the end of the process is not lost.
 * @param level the level of the least important line that is written; `silent`: no line is written
 */
export function createLog(level: string): Logger {
  return pino(
    { level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` },
    new LineWriter(STDERR),
  );
}
