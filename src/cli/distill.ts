/**
 * `understudy distill`: makes patterns and a student from golden runs. The interface of `src/teaching/round.ts`: flags,
 * progress, the report. Main thread.
 */

import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { readCaptureOwner } from '../auth/owner.ts';
import { type Config, loadConfig } from '../config.ts';
import { readStudentManifest } from '../student/directory.ts';
import type { RoundJson } from '../teaching/round-json.ts';
import { PUBLISHING } from '../teaching/round-phases.ts';
import { RoundFailedError, runRoundInThread } from '../teaching/round-thread.ts';
import { type ExportReport, removePartialExport } from '../teaching/training-export.ts';
import { TRAINING_FORMS, type TrainingForm } from '../teaching/training-lines.ts';
import { DISTILL_FLAGS_HELP, type DistillFlags, readDistillFlags } from './distill-flags.ts';
import { describeExport, describeRound } from './distill-report.ts';
import { endingOnSignals } from './interruption.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { choosePalette, formatJson, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Makes patterns from the golden runs of a capture database, and a student that answers the steps that it has seen often
enough. Some golden runs are not used for teaching: on these the command measures what the student would serve and how
often it would be wrong. It publishes a student only if its errors stay below the target.

Usage: understudy distill --out DIR [--db FILE] [--target-error E] [options]
       understudy distill --model-url URL --model NAME [--db FILE] [options]
       understudy distill --export FORM --out DIR [--db FILE] [--held-out S]

${DISTILL_FLAGS_HELP}
  --model-url URL      only reports what the model at this address would serve for each agent and kind of answer, and how
                       often it would be wrong, as with --student http and --endpoint; nothing is published
  --export FORM        writes golden runs as lines for fine-tuning a model (openai or anthropic), and makes no student: DIR
                       gets train.jsonl, held-out.jsonl, and export.json, which names the held-out runs

DIR gets patterns.jsonl (one pattern per line), manifest.json (the student, its threshold, the measurements) and the
student's steps. DIR.work beside it stores the result for each run, so an interrupted distill continues where it stopped,
and a later one reads only new runs. You may delete DIR.work.

Examples:
  understudy distill --out student
  SVC_DISTILL_DIR=student understudy gateway
  SVC_STUDENT_KEY=… understudy distill --model-url https://models.example --model small --style chat_completions
  understudy distill --export openai --out lines
  understudy patterns import --tier e2 student/patterns.jsonl

Exit status: 0 published, evaluated or exported, 1 failed or nothing good enough to publish (patterns are still
written), 2 wrong use.
`;

/** Surroundings that tests may replace. */
export interface DistillSurroundings {
  /** Used without --db. */
  default_db?: string;
  /** Databases of finished monitor runs, which may disqualify a run; default: those of DATA_DIR and beside the file. */
  runs_dbs?: string[];
  /** Width of the terminal. */
  columns?: number;
  now?: () => number;
}

/**
 * Runs the command.
 * @param argv what follows `understudy distill`
 * @returns the exit status, which is `failed` also if a round publishes no student; failures go to `io.err`
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

/** Prints the report in the form that the flags and the terminal require. */
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
 * @returns its result; null if the round failed, after a line on `io.err` that says why
 */
export async function tryRound(
  flags: DistillFlags,
  compare: boolean,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<RoundJson | null> {
  return (await runInThread(flags, compare, null, io, surroundings)) as RoundJson | null;
}

/**
 * Writes training lines.
 * @throws UsageError
 */
async function exportLines(
  flags: DistillFlags,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<number> {
  const form = TRAINING_FORMS.find((known) => known === flags.more.export);
  if (form === undefined) throw new UsageError(`--export takes ${TRAINING_FORMS.join(' or ')}`);
  if (flags.more['model-url'] !== undefined || flags.more.student !== undefined)
    throw new UsageError('--export makes no student, and cannot be combined with --student or --model-url');
  if (flags.since_ms !== null) throw new UsageError('--since cannot be combined with --export');
  const report = (await runInThread(flags, false, form, io, surroundings)) as ExportReport | null;
  if (report === null) return EXIT.failed;
  const columns = surroundings.columns ?? process.stdout.columns;
  const width = io.is_terminal && columns > 0 ? Math.max(40, columns) : Number.POSITIVE_INFINITY;
  await io.out(
    flags.json ? `${formatJson(report, 2)}\n` : describeExport(report, width, choosePalette(io.has_color)),
  );
  return EXIT.done;
}

/** Maximum time after a signal until a publication in progress is finished. */
const PUBLISHING_MS = 5_000;

/** The options of a round that come from the flags and the configuration. */
function chooseRound(flags: DistillFlags, config: Config, { default_db, runs_dbs }: DistillSurroundings) {
  const { db, out, student, target_error, served_min, never_serve, final_cost, since_ms, share, held_out } =
    flags;
  return {
    db: db ?? default_db ?? config.capture.db,
    out,
    student,
    gate: { target_error, served_min, sticky: config.relegation?.sticky ?? false },
    never_serve,
    final_cost,
    since_ms,
    held_out,
    wires: config.relegation_wires,
    share,
    student_key: config.student_key,
    data_dir: config.data_dir,
    data_key: config.data_key,
    capture_owner: readCaptureOwner(config),
    ...(runs_dbs === undefined ? {} : { runs_dbs }),
    embedding: config.embedding,
  };
}

async function runInThread(
  flags: DistillFlags,
  compare: boolean,
  form: TrainingForm | null,
  io: CliIo,
  surroundings: DistillSurroundings,
): Promise<RoundJson | ExportReport | null> {
  const config = loadConfig({ listener: 'gateway' });
  const progress = new Progress(io, surroundings.now ?? Date.now, true);
  const { out, more } = flags;
  const evaluates = more['model-url'] !== undefined;
  const before = form === null && !evaluates ? await findVersion(out) : null;
  let doing = 'beginning';
  let round: Promise<RoundJson | ExportReport> | null = null;
  const start = (): Promise<RoundJson | ExportReport> => {
    round = runRoundInThread(
      { ...chooseRound(flags, config, surroundings), evaluates, exports: form, compare },
      {
        tell: (what, done, of) => {
          doing = what;
          progress.tell(what, done, of);
        },
        announce: (what, done, of) => {
          doing = what;
          progress.announce(what, done, of);
        },
        warn: (words) => io.err(`warning: ${makeHarmlessLine(words)}\n`),
      },
    );
    return round;
  };
  const describe = async (): Promise<string> => {
    const at = makeHarmlessLine(doing);
    // A rename is atomic and quick.
    if (doing === PUBLISHING) await Promise.race([round?.catch(() => {}), setTimeout(PUBLISHING_MS)]);
    progress.clear();
    if (form !== null) {
      removePartialExport(out);
      return `${at}; no file was written`;
    }
    if (evaluates) return `${at}; the model was not asked about all steps, and nothing is written`;
    const kept = existsSync(`${out}.work`)
      ? `; ${makeHarmlessLine(out)}.work keeps the results of the runs read so far`
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

/** Returns the number of the published version; null: no version is published, or the manifest is unreadable. */
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
