/**
 * `understudy distill`: from golden runs to patterns and a student. The face of `src/analysis/distill.ts`: flags,
 * progress, the report. Main thread.
 */

import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { TRAINING_FORMS, type TrainingForm } from '../analysis/training-lines.ts';
import { loadConfig } from '../config.ts';
import { readStudentManifest } from '../student/directory.ts';
import { type ExportReport, removePartialExport } from './distill-export.ts';
import { DISTILL_FLAGS_HELP, type DistillFlags, readDistillFlags } from './distill-flags.ts';
import { describeExport, describeRound, type RoundJson } from './distill-report.ts';
import { RoundFailedError, runRoundInThread } from './distill-thread.ts';
import { endingOnSignals } from './interruption.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { PUBLISHING } from './round-phases.ts';
import { choosePalette, formatJson, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Distils the golden runs of a capture database: the patterns in them, and a student that answers the steps it has seen
often enough. Some golden runs are kept apart from teaching: the command measures on them what the student would serve
and how often it would be wrong. It publishes only a student that stays under the target.

Usage: understudy distill --out DIR [--db FILE] [--target-error E] [options]
       understudy distill --model-url URL --model NAME [--db FILE] [options]
       understudy distill --export FORM --out DIR [--db FILE] [--held-out S]

${DISTILL_FLAGS_HELP}
  --model-url URL      only says what the model at this address would serve, for each agent and kind of answer, and how
                       often it would be wrong: as with --student http and --endpoint, but nothing is published
  --export FORM        writes golden runs as lines to fine-tune a model with, openai or anthropic, and makes no student: DIR
                       gets train.jsonl, held-out.jsonl, and export.json, which names the runs that are kept apart

DIR gets patterns.jsonl (a pattern a line), manifest.json (which student, its threshold, what was measured) and the
student's steps. DIR.work beside it remembers what was made of each run: an interrupted distill goes on where it stopped,
and a later one reads the new runs alone. You may delete it.

Examples:
  understudy distill --out student
  SVC_DISTILL_DIR=student understudy gateway
  SVC_STUDENT_KEY=… understudy distill --model-url https://models.example --model small --style chat_completions
  understudy distill --export openai --out lines
  understudy patterns import --tier e2 student/patterns.jsonl

Exit status: 0 published, evaluated or exported, 1 failed or nothing good enough to publish (patterns are written all the
same), 2 wrong use.
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
 * @returns the exit status; failures go to `io.err`
 * @throws UsageError on wrong use
 */
export async function runDistill(
  argv: string[],
  io: CliIo,
  surroundings: DistillSurroundings = {},
): Promise<number> {
  const flags = readDistillFlags(argv, { 'model-url': 'text', export: 'text' });
  if (flags.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  if (flags.more.export !== undefined) return exportLines(flags, io, surroundings);
  const round = await tryRound(flags, false, io, surroundings);
  if (round === null) return EXIT.failed;
  await printRound(round, flags, io, surroundings);
  return round.outcome === 'published' || round.outcome === 'evaluated' ? EXIT.done : EXIT.failed;
}

/** Prints the report as the flags and the terminal ask for. */
export async function printRound(
  round: RoundJson,
  flags: DistillFlags,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<void> {
  if (flags.json) return io.out(`${formatJson(round, 2)}\n`);
  const columns = surroundings.columns ?? process.stdout.columns;
  const width = io.is_terminal && columns > 0 ? Math.max(40, columns) : Number.POSITIVE_INFINITY;
  await io.out(describeRound(round, flags.tier, width, choosePalette(io.has_color)));
}

/**
 * Runs a round.
 * @param compare see `RoundOptions`
 * @returns what it did; null when it failed, which is then told in one line on `io.err`
 */
export async function tryRound(
  flags: DistillFlags,
  compare: boolean,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<RoundJson | null> {
  return (await runInThread(flags, compare, null, io, surroundings)) as RoundJson | null;
}

/** Writes the lines to fine-tune with. @throws UsageError */
async function exportLines(
  flags: DistillFlags,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<number> {
  const form = TRAINING_FORMS.find((known) => known === flags.more.export);
  if (form === undefined) throw new UsageError(`--export takes ${TRAINING_FORMS.join(' or ')}`);
  if (flags.more['model-url'] !== undefined || flags.more.student !== undefined)
    throw new UsageError('--export makes no student, and goes with neither --student nor --model-url');
  const report = (await runInThread(flags, false, form, io, surroundings)) as ExportReport | null;
  if (report === null) return EXIT.failed;
  const columns = surroundings.columns ?? process.stdout.columns;
  const width = io.is_terminal && columns > 0 ? Math.max(40, columns) : Number.POSITIVE_INFINITY;
  await io.out(
    flags.json ? `${formatJson(report, 2)}\n` : describeExport(report, width, choosePalette(io.has_color)),
  );
  return EXIT.done;
}

/** What a round that is publishing gets to finish that. */
const PUBLISHING_MS = 5_000;

async function runInThread(
  flags: DistillFlags,
  compare: boolean,
  form: TrainingForm | null,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<RoundJson | ExportReport | null> {
  const config = loadConfig({ listener: 'gateway' });
  const progress = new Progress(io, io.is_terminal, surroundings.now ?? Date.now);
  const { out, student, target_error, served_min, never_serve, share, held_out, more } = flags;
  const evaluates = more['model-url'] !== undefined;
  const before = form === null && !evaluates ? await findVersion(out) : null;
  let doing = 'beginning';
  let round: Promise<RoundJson | ExportReport> | null = null;
  const start = (): Promise<RoundJson | ExportReport> => {
    round = runRoundInThread(
      {
        db: flags.db ?? surroundings.default_db ?? config.capture.db,
        out,
        student,
        gate: { target_error, served_min, sticky: config.relegation?.sticky ?? false },
        never_serve,
        held_out,
        evaluates,
        exports: form,
        wires: config.relegation_wires,
        compare,
        share,
        student_key: config.student_key,
        data_dir: config.data_dir,
        data_key: config.data_key,
        ...(surroundings.runs_dbs === undefined ? {} : { runs_dbs: surroundings.runs_dbs }),
        embedding: config.embedding,
      },
      {
        tell: (what, done, of) => {
          doing = what;
          progress.tell(what, done, of);
        },
        announce: (what) => {
          doing = what;
          progress.announce(what);
        },
        warn: (words) => io.err(`warning: ${makeHarmlessLine(words)}\n`),
      },
    );
    return round;
  };
  const describe = async (): Promise<string> => {
    const at = makeHarmlessLine(doing);
    // What takes its place by a rename is there in a moment, or not at all.
    if (doing === PUBLISHING) await Promise.race([round?.catch(() => {}), setTimeout(PUBLISHING_MS)]);
    progress.clear();
    if (form !== null) {
      removePartialExport(out);
      return `${at}; no file was written`;
    }
    if (evaluates) return `${at}; the model was not asked about all steps, and nothing is written`;
    const kept = existsSync(`${out}.work`)
      ? `; ${makeHarmlessLine(out)}.work keeps what was read of runs`
      : '';
    return `${at}; ${describeVersion(before, await findVersion(out), out)}${kept}`;
  };
  try {
    return await endingOnSignals(io, start, describe);
  } catch (error) {
    if (!(error instanceof RoundFailedError)) throw error;
    io.err(`understudy: ${makeHarmlessLine(error.message)}\n`);
    return null;
  } finally {
    progress.clear();
  }
}

/** @returns null where none is published, or nobody can tell */
async function findVersion(out: string): Promise<number | null> {
  return readStudentManifest(out).then(
    ({ version }) => version,
    () => null,
  );
}

function describeVersion(before: number | null, now: number | null, out: string): string {
  const where = makeHarmlessLine(out);
  if (now === null) return `nothing is published in ${where}`;
  return now === before ? `version ${now} stays in ${where}` : `version ${now} is published in ${where}`;
}
