/**
 * Runs a command in a process of its own, and says in one line if that process dies. For commands that read
 * capture files: LMDB maps a file and trusts its pages, so a damaged page can end the process that reads it with SIGSEGV,
 * SIGBUS or an assertion, and no code in that process can catch it. Main thread of the command line.
 */

import { spawn } from 'node:child_process';
import { dieOf, INTERRUPTED } from './interruption.ts';
import { type CliIo, EXIT } from './io.ts';

/** First argument of the process that does the work. */
export const IN_PROCESS = '--in-process';

/** What LMDB itself prints on standard error when it stumbles over a page. */
const NATIVE_NOISE = /^(?:internal error, index points|page \d+ not found error|mdb_|\S*mdb\.c:\d+)/;

const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * @param argv of the command, its name first
 * @param what it reads, for the line that says that it is damaged
 * @param entry the script that runs `argv` when IN_PROCESS stands before it
 * @param interrupted said when a signal that we passed on ended it, and it has not said so itself
 * @returns the command's exit status; 1, with a line on `io.err`, when a signal ended it that we did not send
 */
export function runGuarded(
  argv: readonly string[],
  io: CliIo,
  what: string,
  entry: string = process.argv[1]!,
  interrupted = 'nothing was done',
): Promise<number> {
  const child = spawn(process.execPath, [...process.execArgv, entry, IN_PROCESS, ...argv], {
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
    child.once('close', (code, signal) => {
      for (const one of FORWARDED) process.off(one, forward);
      filter.finish();
      if (signal === null) return resolve(code ?? EXIT.failed);
      // Ended as asked: so do we.
      if (signal === sent) {
        if (!hasSaid) io.err(`${INTERRUPTED} ${signal}: ${interrupted}\n`);
        return dieOf(signal);
      }
      io.err(`understudy: ${what}: ${tellSignal(signal)}\n`);
      resolve(EXIT.failed);
    });
  });
}

/** What a signal that we did not send says of a file: one that somebody else sends says nothing of it. */
export function tellSignal(signal: NodeJS.Signals): string {
  if (signal === 'SIGKILL') return 'reading it was killed, perhaps for want of memory';
  if ((FORWARDED as readonly string[]).includes(signal)) return `reading it was ended by ${signal}`;
  return `damaged: reading it ended with ${signal}. Take it from a backup (understudy restore)`;
}

/** Passes text on as it comes, but for lines that are noise. */
class NoiseFilter {
  readonly #pass: (text: string) => void;
  /** The beginning of a line that may yet be noise. */
  #held = '';

  constructor(pass: (text: string) => void) {
    this.#pass = pass;
  }

  add(text: string): void {
    const lines = (this.#held + text).split('\n');
    this.#held = lines.pop()!;
    for (const line of lines) if (!NATIVE_NOISE.test(line)) this.#pass(`${line}\n`);
    // A line of progress has no end; noise begins with a letter, a dot or a slash.
    if (this.#held !== '' && !/^[\w./]/.test(this.#held)) this.finish();
  }

  finish(): void {
    if (this.#held !== '' && !NATIVE_NOISE.test(this.#held)) this.#pass(this.#held);
    this.#held = '';
  }
}
