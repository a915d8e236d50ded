/**
 * Runs a command that reads capture files in a separate process, and reports a crash of that process in one line. LMDB
 * maps a file and trusts its pages, so a damaged page can crash the reading process with SIGSEGV, SIGBUS or an
 * assertion, which code in that process cannot catch. Main thread of the command line.
 */

import { spawn } from 'node:child_process';
import { dieOf, INTERRUPTED } from './interruption.ts';
import { type CliIo, EXIT } from './io.ts';

/** First argument of the child process. Its standard error is a pipe, so only the parent knows whether to show progress. */
export const IN_PROCESS = { quiet: '--in-process', progress: '--in-process-with-progress' } as const;

/** The text that LMDB prints on standard error for a damaged page. */
const NATIVE_NOISE = /^(?:internal error, index points|page \d+ not found error|mdb_|\S*mdb\.c:\d+)/;

const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** What the command reports and does if a signal ends the process. */
export interface GuardedEnd {
  /** Printed after a signal that the parent process forwarded, unless the child process printed its own message. */
  interrupted?: string | undefined;
  /** Advice about the file that the process was reading when it crashed. */
  advice?: string | undefined;
  /** Removes unfinished work of the process; its error is reported. */
  undo?: (() => Promise<void>) | undefined;
}

const ADVICE = 'Restore it from a backup (understudy restore)';

/**
 * Runs a command in a separate process.
 * @param argv the name of the command and its arguments
 * @param what the files that it reads, for the line that reports damage
 * @param entry the script that runs `argv` after IN_PROCESS
 * @returns the command's exit status; 1, with a line on `io.err`, if another signal than a forwarded one ended it
 */
export function runGuarded(
  argv: readonly string[],
  io: CliIo,
  what: string,
  entry: string = process.argv[1]!,
  { interrupted = 'nothing was done', advice = ADVICE, undo = async () => {} }: GuardedEnd = {},
): Promise<number> {
  const mode = io.shows_progress === true ? IN_PROCESS.progress : IN_PROCESS.quiet;
  const child = spawn(process.execPath, [...process.execArgv, entry, mode, ...argv], {
    stdio: ['inherit', 'inherit', 'pipe'],
  });
  const filter = new NoiseFilter((text) => io.err(text));
  let hasSaid = false;
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    hasSaid ||= text.includes(INTERRUPTED);
    filter.add(text);
  });
  let sent: NodeJS.Signals | null = null;
  const forward = (signal: NodeJS.Signals): void => {
    sent = signal;
    child.kill(signal);
  };
  for (const signal of FORWARDED) process.on(signal, forward);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', async (code, signal) => {
      for (const signal of FORWARDED) process.off(signal, forward);
      filter.finish();
      if (signal === null) return resolve(code ?? EXIT.failed);
      await undo().catch((error: Error) => io.err(`understudy: ${error.message}\n`));
      // The child process ended by the forwarded signal. This process ends by the same signal.
      if (signal === sent) {
        if (!hasSaid) io.err(`${INTERRUPTED} ${signal}: ${interrupted}\n`);
        return dieOf(signal);
      }
      io.err(`understudy: ${what}: ${tellSignal(signal, advice)}\n`);
      resolve(EXIT.failed);
    });
  });
}

/**
 * Describes what a signal that was not forwarded says about the file. A kill by another process does not mean damage.
 */
export function tellSignal(signal: NodeJS.Signals, advice: string = ADVICE): string {
  if (signal === 'SIGKILL') return 'the process that read it was killed, perhaps because memory ran out';
  if ((FORWARDED as readonly string[]).includes(signal))
    return `the process that read it was ended by ${signal}`;
  return `damaged: the process that read it ended with ${signal}. ${advice}`;
}

/** Forwards text as it arrives, except for noise lines. */
class NoiseFilter {
  readonly #pass: (text: string) => void;
  /** The beginning of a line that may still be noise. */
  #held = '';

  constructor(pass: (text: string) => void) {
    this.#pass = pass;
  }

  add(text: string): void {
    const lines = (this.#held + text).split('\n');
    this.#held = lines.pop()!;
    for (const line of lines) if (!NATIVE_NOISE.test(line)) this.#pass(`${line}\n`);
    // A progress line has no line end; noise begins with a letter, a dot or a slash.
    if (this.#held !== '' && !/^[\w./]/.test(this.#held)) this.finish();
  }

  finish(): void {
    if (this.#held !== '' && !NATIVE_NOISE.test(this.#held)) this.#pass(this.#held);
    this.#held = '';
  }
}
