/** The command line as a child process, with its output and a way to wait for it. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { PROGRESS_LINE } from '../../src/cli/progress.ts';
import { quoteForShell } from '../../src/std/shell-word.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { COMPILE_CACHE, STRIPPED_FLAGS } from '../fixtures/strip-types.ts';

const ENTRY = fileURLToPath(new URL('../../src/cli/understudy.mjs', import.meta.url));

interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/**
 * Few threads, because `auto` would start as many as the machine has cores. A test that sets SERVER_THREADS overrides
 * FRONT_THREADS, its older name. TEST_SERVER_THREADS and TEST_ACTOR_THREADS set other numbers for all tests.
 */
export const FEW_THREADS = {
  FRONT_THREADS: process.env.TEST_SERVER_THREADS ?? '1',
  ACTOR_THREADS: process.env.TEST_ACTOR_THREADS ?? '1',
};

/** Runs a command to its end, as a process (`runCli`) or in the test's own process (`runHere`). */
export type RunCommand = (
  argv: string[],
  env?: Record<string, string>,
) => Promise<Pick<Ending, 'code' | 'stdout' | 'stderr'>>;

export class CliChild {
  readonly process: ChildProcess;
  stdout = '';
  stderr = '';
  readonly #ended: Promise<Ending>;

  /**
   * @param argv the words after `understudy`
   * @param options `env`: added to a bare environment; `entry`: another copy of the command; `cwd`: the working
   * directory; `file_bytes_max`, `descriptors_max`: limits that `prlimit` sets; `umask`: set before the start;
   * `terminal`: whether it runs on a terminal, which `script` makes
   */
  constructor(
    argv: string[],
    options: {
      env?: Record<string, string>;
      entry?: string;
      cwd?: string;
      file_bytes_max?: string;
      descriptors_max?: number;
      umask?: string;
      terminal?: boolean;
    } = {},
  ) {
    const command = [
      ...(options.umask === undefined ? [] : ['sh', '-c', `umask ${options.umask}; exec "$@"`, 'sh']),
      ...(options.file_bytes_max === undefined ? [] : ['prlimit', `--fsize=${options.file_bytes_max}:`]),
      ...(options.descriptors_max === undefined ? [] : ['prlimit', `--nofile=${options.descriptors_max}`]),
      process.execPath,
      ...STRIPPED_FLAGS,
      options.entry ?? ENTRY,
      ...argv,
    ];
    const inTerminal = ['script', '-qefc', `exec ${command.map(quoteForShell).join(' ')}`, '/dev/null'];
    const [program, ...words] = (options.terminal ? inTerminal : command) as [string, ...string[]];
    this.process = spawn(program, words, {
      // Without the developer's own settings and without colours.
      env: {
        PATH: process.env.PATH,
        NODE_COMPILE_CACHE: COMPILE_CACHE,
        // With a limit on file sizes, Node would print that it cannot write its coverage counts (test/coverage.ts).
        ...(options.file_bytes_max !== undefined && { NODE_V8_COVERAGE: '' }),
        ...FEW_THREADS,
        ...options.env,
      },
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.process.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    this.process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.#ended = once(this.process, 'close').then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
      stdout: this.stdout,
      stderr: this.stderr,
    }));
  }

  /** Resolves when the process has ended and its output is read. */
  get ended(): Promise<Ending> {
    return this.#ended;
  }

  get isRunning(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null;
  }

  /**
   * Waits until standard output contains a match.
   * @throws Error with all output if the process ends first or PATIENCE_MS pass
   */
  async waitForOutput(pattern: RegExp): Promise<RegExpExecArray> {
    const impatience = new AbortController();
    const isLate = delay(PATIENCE_MS, 'late' as const, { signal: impatience.signal, ref: false }).catch(
      () => 'late' as const,
    );
    try {
      for (;;) {
        const match = pattern.exec(this.stdout);
        if (match !== null) return match;
        const next = once(this.process.stdout!, 'data').then(() => undefined);
        const ending = await Promise.race([next, this.#ended, isLate]);
        const last = pattern.exec(this.stdout);
        if (last !== null) return last;
        if (ending === 'late')
          throw new Error(`no ${pattern} in ${PATIENCE_MS} ms:\n${this.stdout}\n${this.stderr}`);
        if (ending !== undefined)
          throw new Error(`ended with ${ending.code}:\n${ending.stdout}\n${ending.stderr}`);
      }
    } finally {
      impatience.abort();
    }
  }

  /**
   * Kills the process with SIGKILL, and waits until its child processes have ended: the capture process still stores
   * what it has received after its parent has ended.
   */
  async kill(): Promise<Ending> {
    const family = listDescendants(this.process.pid!);
    this.process.kill('SIGKILL');
    const ending = await this.#ended;
    for (const pid of family) await awaitEnd(pid);
    return ending;
  }

  /** Ends the process and its descendants if they still run, so that the folder of the test can be removed. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (process.env.NODE_V8_COVERAGE && this.isRunning) await this.#askToEnd();
    const family = this.isRunning ? listDescendants(this.process.pid!) : [];
    if (this.isRunning) this.process.kill('SIGKILL');
    await this.#ended;
    for (const pid of family) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
      await awaitEnd(pid);
    }
  }

  /**
   * Sends SIGTERM, and waits for the end for at most COUNTED_END_MS, because a killed process writes no coverage
   * counts (test/coverage.ts).
   */
  async #askToEnd(): Promise<void> {
    this.process.kill('SIGTERM');
    const given = new AbortController();
    await Promise.race([
      this.#ended,
      delay(COUNTED_END_MS, null, { signal: given.signal }).catch(() => null),
    ]);
    given.abort();
  }
}

/** How long a process may take to end by itself while coverage is counted. */
const COUNTED_END_MS = 10_000;

/** All descendants of a process; none if the system has no /proc. */
function listDescendants(pid: number): number[] {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const children = threads.flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean).map(Number),
    );
    return children.flatMap((child) => [child, ...listDescendants(child)]);
  } catch {
    return [];
  }
}

/**
 * Waits until a process is gone or a zombie. A zombie has ended, but its parent has not collected its exit status.
 */
async function awaitEnd(pid: number): Promise<void> {
  try {
    while (!/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))) await delay(1);
  } catch {
    // It has ended.
  }
}

/** @returns standard error without the lines of progress that a command prints if it takes more than half a minute */
export function omitProgress(stderr: string): string {
  return stderr.replace(new RegExp(`^${PROGRESS_LINE}.*\\n`, 'gm'), '');
}

/** Runs a command that ends by itself. */
export function runCli(argv: string[], env?: Record<string, string>): Promise<Ending> {
  return new CliChild(argv, env === undefined ? {} : { env }).ended;
}
