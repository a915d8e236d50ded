/** What a command may use of its surroundings, so that a test can give it other ones. Main thread. */

import { exitProcess } from '../std/loading-threads.ts';

export interface CliIo {
  /** Standard output: results, nothing else. Resolves when the reader has taken it (back-pressure). */
  out(data: string | Uint8Array): Promise<void>;
  /** Standard error: progress, warnings, failures. */
  err(text: string): void;
  /** Standard output is a terminal: progress and colours make sense. */
  is_terminal: boolean;
  /** A terminal that shows colours, and NO_COLOR is not set. */
  has_color: boolean;
}

/** Exit statuses of every command: done, failed, wrong use. */
export const EXIT = { done: 0, failed: 1, usage: 2 } as const;

/** Wrong use of a command: one line, then where to read more; exit 2. */
export class UsageError extends Error {
  readonly exit_code = EXIT.usage;
}

/** The process's own streams. Node's `hasColors` honours NO_COLOR and TERM=dumb. */
export function openProcessIo(): CliIo {
  const { stdout, stderr } = process;
  // `understudy inspect | head`: a reader that has seen enough is no failure.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return exitProcess(EXIT.done);
    stderr.write(`understudy: the output cannot be written: ${error.message.split('\n', 1)[0]}\n`);
    exitProcess(EXIT.failed);
  });
  return {
    out: (data) => new Promise((resolve) => stdout.write(data, () => resolve())),
    err: (text) => void stderr.write(text),
    is_terminal: stdout.isTTY === true,
    has_color: stdout.isTTY === true && stdout.hasColors(),
  };
}
