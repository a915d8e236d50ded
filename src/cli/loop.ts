/**
 * `understudy loop`: runs rounds repeatedly, or once, and publishes better students. Main thread.
 *
 * With an interval, each round is a separate process. Its memory is freed when it ends, and a crash ends only that
 * round. The command reacts to a signal at once, however busy the round is.
 */

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { RoundJson } from '../teaching/round-json.ts';
import { type DistillSurroundings, printRound, tryRound } from './distill.ts';
import { DISTILL_FLAGS_HELP, type DistillFlags, readDistillFlags } from './distill-flags.ts';
import { describeRoundLine } from './distill-report.ts';
import { IN_PROCESS, tellSignal } from './guard.ts';
import { readInterval } from './interval.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { PROGRESS_LINE } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Keeps a student up to date: each round reads new runs, teaches a student, measures it on held-out golden runs, and publishes
it only if it passes the gate and is not worse than the published one. Otherwise the present student stays, and the command
says why. The gateway loads a newly published student by itself.

Usage: understudy loop --out DIR [--db FILE] [--once | --every TIME] [options]

  --once               one round
  --every TIME         a round at this interval: 30s, 15m, 1h (default), 1d. The command reports a failed round and
                       continues with the next; SIGTERM or Ctrl-C ends it at once
${DISTILL_FLAGS_HELP}; with --every one line of JSON per round

The gate: the student must serve at least --min-served of the held-out steps, and at most --target-error of these may be
wrong. With GW_RELEGATION_STICKY=on both limits also hold for the steps that the student serves in a row from the beginning
of a run. Not worse: both students are compared on the steps that were also held out for the published student. The share
that the new student serves correctly may be at most 2 percentage points lower, unless the published student misses the
target on these steps.

Examples:
  understudy loop --out student --once
  understudy loop --out student --every 6h

Exit status: 0 published or kept (--once), ended by a signal (--every); 1 failed; 2 wrong use.
`;

const EVERY_MAX_DAYS = 20;
/**
 * Number of characters of a round's output from which on further output is dropped. The round then counts as failed.
 */
const ROUND_OUTPUT_CHARACTERS = 4 * 1024 * 1024;

/** How a round's process ended. */
export interface RoundEnd {
  /** null when a signal ended it, or it could not be started. */
  status: number | null;
  /** Its output. */
  out: string;
  /** Why the process failed, on one line: the first line of its error messages, or what ended it; '' if unknown. */
  error: string;
}

/** Surroundings that tests may replace. */
export interface LoopSurroundings extends DistillSurroundings {
  /** Runs `understudy loop` with these arguments in a separate process. `stop` ends that process. */
  startRound?: (argv: string[], stop: AbortSignal, io: CliIo) => Promise<RoundEnd>;
  /** Stops the loop, like SIGTERM and SIGINT. */
  stop?: AbortSignal;
}

/**
 * Runs the command.
 * @param argv what follows `understudy loop`
 * @returns the exit status; failures go to `io.err`
 * @throws UsageError on wrong use
 */
export async function runLoop(
  argv: string[],
  io: CliIo,
  surroundings: LoopSurroundings = {},
): Promise<number> {
  const flags = readDistillFlags(argv, { once: 'switch', every: 'text' });
  if (flags.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const { once, every } = flags.more;
  if (once === true && every !== undefined) throw new UsageError('--once and --every cannot be combined');
  if (once === true) return runOnce(flags, io, surroundings);
  const everyMs = readInterval('--every', (every as string | undefined) ?? '1h', EVERY_MAX_DAYS);
  await runAtInterval(flags, everyMs, argv, io, surroundings);
  return EXIT.done;
}

async function runOnce(flags: DistillFlags, io: CliIo, surroundings: LoopSurroundings): Promise<number> {
  const round = await tryRound(flags, true, io, surroundings);
  if (round === null) return EXIT.failed;
  await printRound(round, flags, io, surroundings);
  return EXIT.done;
}

async function runAtInterval(
  flags: DistillFlags,
  everyMs: number,
  argv: string[],
  io: CliIo,
  { startRound = startProcess, stop: given }: LoopSurroundings,
): Promise<void> {
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  given?.addEventListener('abort', stop);
  if (given?.aborted === true) stop();
  const roundArgv = [...leaveOutEvery(argv), '--once', ...(flags.json ? [] : ['--json'])];
  try {
    while (!stopping.signal.aborted) {
      const startedMs = performance.now();
      const end = await startRound(roundArgv, stopping.signal, io);
      if (stopping.signal.aborted) break;
      await io.out(`${describeEnd(end, flags.json)}\n`);
      await waitFor(Math.max(0, startedMs + everyMs - performance.now()), stopping.signal);
    }
  } finally {
    process.off('SIGTERM', stop);
    process.off('SIGINT', stop);
    given?.removeEventListener('abort', stop);
  }
}

/** The arguments without `--every TIME`. */
function leaveOutEvery(argv: readonly string[]): string[] {
  return argv.filter(
    (word, at) => word !== '--every' && argv[at - 1] !== '--every' && !word.startsWith('--every='),
  );
}

function describeEnd({ status, out, error }: RoundEnd, asJson: boolean): string {
  const at = new Date().toISOString();
  let round: RoundJson | null = null;
  try {
    if (status === EXIT.done) round = JSON.parse(out) as RoundJson;
  } catch {
    // If the output is not a report, the round counts as failed, even with status 0.
  }
  if (round !== null) return asJson ? JSON.stringify({ at, ...round }) : `${at} ${describeRoundLine(round)}`;
  const reason = error === '' ? describeEmptyEnd(status) : error;
  return asJson
    ? JSON.stringify({ at, outcome: 'failed', reason })
    : `${at} failed: ${makeHarmlessLine(reason)}`;
}

/** Describes the end of a round's process that printed neither a report nor an error. */
function describeEmptyEnd(status: number | null): string {
  if (status === null) return 'the process of the round ended by a signal';
  return `the process of the round ended with status ${status}, without a report`;
}

function waitFor(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stop.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      stop.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stop.addEventListener('abort', done);
  });
}

/** Runs a round in a separate process. Forwards its warnings and its progress. */
function startProcess(argv: string[], stop: AbortSignal, io: CliIo): Promise<RoundEnd> {
  return new Promise((resolve) => {
    const child = spawn(
      process.execPath,
      [...process.execArgv, process.argv[1]!, IN_PROCESS.quiet, 'loop', ...argv],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let out = '';
    let error = '';
    const kill = (): void => void child.kill('SIGKILL');
    stop.addEventListener('abort', kill);
    if (stop.aborted) kill();
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (out.length < ROUND_OUTPUT_CHARACTERS) out += text;
    });
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (line.startsWith('warning: ') || line.startsWith(PROGRESS_LINE)) io.err(`${line}\n`);
      else error = `${error}${line}\n`.slice(-4_096);
    });
    const end = (status: number | null, why = ''): void => {
      stop.removeEventListener('abort', kill);
      const words = why === '' ? (error.trim().split('\n')[0] ?? '') : why;
      resolve({ status, out, error: words.replace(/^understudy: /, '') });
    };
    child.once('error', (failure) => end(null, failure.message));
    child.once('close', (status, signal) =>
      end(status, signal === null ? '' : `the database: ${tellSignal(signal)}`),
    );
  });
}
