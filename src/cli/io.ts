/** The surroundings that a command may use, so that tests can replace them. Main thread. */

import { exitProcess } from '../std/loading-threads.ts';

export interface CliIo {
  /**
   * Writes results to standard output. Resolves when the reader has accepted the data
   * (back-pressure), or at once after `outliveReader`.
   */
  out(data: string | Uint8Array): Promise<void>;
  /** Standard error: progress, warnings, failures. */
  err(text: string): void;
  /** Whether standard output is a terminal. */
  is_terminal: boolean;
  /** Whether standard output is a terminal that shows colours, and NO_COLOR is not set. */
  has_color: boolean;
  /** Whether standard error is a terminal on which lines can be overwritten, and NO_COLOR is not set. Absent: false. */
  shows_progress?: boolean;
  /** After this call, the process continues when the reader of its output exits, as a service must. */
  outliveReader?(): void;
}

/** Exit statuses that commands return: done, failed, wrong use. A wrong value in the configuration exits with 78. */
export const EXIT = { done: 0, failed: 1, usage: 2 } as const;

/** Wrong use of a command. `runUnderstudy` prints the message and where to read more, and returns 2. */
export class UsageError extends Error {
  readonly exit_code = EXIT.usage;
}

/** The process's own streams. Node's `hasColors` honours NO_COLOR and TERM=dumb. */
export function openProcessIo(): CliIo {
  const { stdout, stderr } = process;
  let outlives = false;
  // A failure of standard error cannot be reported anywhere.
  stderr.on('error', () => {});
  // A reader that exits early, as in `understudy inspect | head`, is not a failure.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (outlives) return;
    if (error.code === 'EPIPE') return exitProcess(EXIT.done);
    stderr.write(`understudy: the output cannot be written: ${error.message.split('\n', 1)[0]}\n`);
    exitProcess(EXIT.failed);
  });
  return {
    out: (data) =>
      new Promise((resolve) => {
        stdout.write(data, () => resolve());
        if (outlives) resolve();
      }),
    err: (text) => void stderr.write(text),
    is_terminal: stdout.isTTY === true,
    has_color: stdout.isTTY === true && stdout.hasColors(),
    shows_progress: stderr.isTTY === true && stderr.hasColors(),
    outliveReader: () => {
      outlives = true;
    },
  };
}
