/**
 * `understudy distill`: from golden runs to patterns and a student. The face of `src/analysis/distill.ts`: flags,
 * progress, the report. Main thread.
 */

import { TooManyRunsError } from '../analysis/trace.ts';
import { loadConfig } from '../config.ts';
import { CaptureFileError } from '../storage/capture/layout.ts';
import { StudentDirectoryError } from '../storage/student-directory.ts';
import { DISTILL_FLAGS_HELP, type DistillFlags, readDistillFlags } from './distill-flags.ts';
import { describeRound, toRoundJson } from './distill-report.ts';
import { type RoundReport, runRound } from './distill-round.ts';
import { type CliIo, EXIT } from './io.ts';
import { Progress } from './progress.ts';
import { OutcomesError } from './run-outcomes.ts';
import { choosePalette, formatJson, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Distils the golden runs of a capture database: the patterns in them, and a student that answers the steps it has seen
often enough. Some golden runs are kept apart from teaching; on them is measured what the student would serve and how
often it would be wrong. Only a student that stays under the target is published.

Usage: understudy distill --out DIR [--db FILE] [--target-error E] [options]

${DISTILL_FLAGS_HELP}

DIR gets patterns.jsonl (a pattern a line), manifest.json (which student, its threshold, what was measured) and the
student's steps. DIR.work beside it remembers what was made of each run: an interrupted distill goes on where it stood,
and a later one reads the new runs alone. It may be deleted.

Examples:
  understudy distill --out student
  SVC_DISTILL_DIR=student understudy gateway
  understudy patterns import --tier e2 student/patterns.jsonl

Exit status: 0 published, 1 failed or nothing good enough to publish (patterns are written all the same), 2 wrong use.
`;

/** What a test may put in place of the real surroundings. */
export interface DistillSurroundings {
  /** Used when --db is not given. */
  default_db?: string;
  /** Databases of finished monitor runs that may speak against a run; those of DATA_DIR and beside the file. */
  runs_dbs?: string[];
  /** Width of the terminal. */
  columns?: number;
  now?: () => number;
}

/**
 * Runs the command.
 * @param argv what follows `understudy distill`
 * @returns the exit status; failures are told on `io.err`
 * @throws UsageError on wrong use
 */
export async function runDistill(
  argv: string[],
  io: CliIo,
  surroundings: DistillSurroundings = {},
): Promise<number> {
  const flags = readDistillFlags(argv);
  if (flags.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const report = await tryRound(flags, false, io, surroundings);
  if (report === null) return EXIT.failed;
  await printRound(report, flags, io, surroundings);
  return report.outcome === 'published' ? EXIT.done : EXIT.failed;
}

/** Prints the report as the flags and the terminal ask for. */
export async function printRound(
  report: RoundReport,
  flags: DistillFlags,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<void> {
  if (flags.json) return io.out(`${formatJson(toRoundJson(report, flags.out), 2)}\n`);
  const columns = surroundings.columns ?? process.stdout.columns;
  const width = io.is_terminal && columns > 0 ? Math.max(40, columns) : Number.POSITIVE_INFINITY;
  await io.out(describeRound(report, flags.out, flags.tier, width, choosePalette(io.has_color)));
}

/**
 * Runs a round.
 * @param compare see `RoundOptions`
 * @returns null when it failed, which is then told in one line on `io.err`
 */
export async function tryRound(
  flags: DistillFlags,
  compare: boolean,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<RoundReport | null> {
  const config = loadConfig({ listener: 'gateway' });
  const progress = new Progress(io, io.is_terminal, surroundings.now ?? Date.now);
  const { out, student, target_error, served_min } = flags;
  try {
    return await runRound(
      {
        db: flags.db ?? surroundings.default_db ?? config.capture.db,
        out,
        student,
        gate: { target_error, served_min },
        compare,
        data_dir: config.data_dir,
        ...(surroundings.runs_dbs === undefined ? {} : { runs_dbs: surroundings.runs_dbs }),
        embedding: config.embedding,
      },
      { progress, warn: (words) => io.err(`warning: ${makeHarmlessLine(words)}\n`) },
    );
  } catch (error) {
    if (!isExpected(error)) throw error;
    io.err(`understudy: ${makeHarmlessLine(error.message)}\n`);
    return null;
  }
}

/** What is wrong with files, which the reader can do something about. */
function isExpected(error: unknown): error is Error {
  return (
    error instanceof CaptureFileError ||
    error instanceof StudentDirectoryError ||
    error instanceof TooManyRunsError ||
    error instanceof OutcomesError
  );
}
