/**
 * `understudy inspect`: shows what a capture database holds. The face of `src/analysis/inspect.ts`; its pages are the
 * list of runs (inspect-list.ts), one run (inspect-run.ts) and one exchange (inspect-exchange.ts). Main thread of the
 * command line; reads only.
 *
 * Output goes out piece by piece with back-pressure, so a long run is never held whole. Everything that came from an
 * exchange is made harmless before it reaches a terminal; `--raw` alone writes bytes as they are.
 */

import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { ExchangeSource } from '../analysis/exchange-source.ts';
import { loadConfig } from '../config.ts';
import { showExchange } from './inspect-exchange.ts';
import { type InspectFlags, readInspectFlags } from './inspect-flags.ts';
import { showRuns } from './inspect-list.ts';
import { showRun } from './inspect-run.ts';
import type { FindOutcomes, InspectView } from './inspect-view.ts';
import { type CliIo, EXIT } from './io.ts';
import { Progress } from './progress.ts';
import { listRunsDbs, readOutcomes } from './run-outcomes.ts';
import { choosePalette, makeHarmlessLine } from './terminal-text.ts';
import { UnreadableExchanges } from './unreadable-exchanges.ts';

const HELP = `Shows what a capture database holds: runs, turns, gaps, bodies, and which runs are golden.

Usage: understudy inspect [--db FILE] [--since WHEN] [--golden | --not-golden] [--limit N] [--json]
       understudy inspect [--db FILE] --run ID [--full] [--json]
       understudy inspect [--db FILE] --exchange N [--json]
       understudy inspect [--db FILE] --exchange N --raw request|response
       understudy inspect [--db FILE] --step N [--student DIR] [--json]

  --db FILE        capture database; DATA_DIR/capture.mdb when not given. Its sealed files are read with it; you can
                   also name one of them, which is then read alone. A running gateway may be writing to it.
  --since WHEN     runs that went on then or later: 90m, 12h, 7d ago, or a time such as 2026-05-01 or 2026-05-01T12:00Z
  --golden         golden runs alone; --not-golden: the others alone. With --limit N it looks no further back than
                   to the Nth of them
  --limit N        the latest N runs, 0 for all; on a terminal 200 when not given
  --run ID         one run as a conversation: what was new in each request, the answer, its time and cost,
                   what failed and was tried again
  --full           with --run: show long texts whole instead of their beginning
  --exchange N     one exchange: status, times, model, usage, headers (credentials are never stored)
  --raw SIDE       the stored body of that exchange, request or response, byte for byte and nothing else
  --step N         exchange N as relegation sees it: what was decided, which rule, the nearest golden step, what is new
                   beside it, and the student's answer beside the upstream's
  --student DIR    with --step: the student's directory; SVC_DISTILL_DIR when not given
  --json           the same as one JSON document, for programs; with --exchange the exchange record itself

The table has a line for each run, the latest last:
  TURNS     model turns / all exchanges        IN, OUT   tokens, as the providers count them
  ERR       failed calls and aborted ones      GAPS      x-svc-seq numbers that are missing
  GOLDEN    yes, or in short why not (--run says it in full): a golden run was captured whole, with nothing missing,
            every failed call retried to success, its last turn ended of itself, and no monitor run says otherwise

Examples:
  understudy inspect
  understudy inspect --since 2h --not-golden
  understudy inspect --run checkout-fix-17
  understudy inspect --exchange 42 --raw response | jq .
  understudy inspect --json | jq -r '.runs[] | select(.golden) | .run_id'

Exit status: 0 done, 1 failed (no such database, run, exchange or body; something is damaged: the rest is shown),
2 wrong use.
`;

/** Kept of what was unpacked, of each open file: exchanges are read in order. */
const CACHE_BYTES = 8 * 1024 * 1024;

/** What a test may put in place of the real surroundings. */
export interface InspectSurroundings {
  /** Used when --db is not given. */
  default_db?: string;
  /** Width of the terminal. */
  columns?: number;
  /** Opens the database; CaptureFiles when not given. */
  open?: (db: string, dataKey: Uint8Array | null, unreadable?: UnreadableExchanges) => Promise<OpenSource>;
  /** Databases of finished monitor runs that may speak against a run; those of DATA_DIR and beside the file. */
  runs_dbs?: string[];
  now?: () => number;
}

/** An open database and how to let go of it. */
export interface OpenSource {
  source: ExchangeSource;
  /** Exchanges in all, for the progress. */
  count?: number;
  close(): Promise<void>;
}

/**
 * Runs the command.
 * @param argv what follows `understudy inspect`
 * @returns the exit status: 0 done, 1 failed; failures go to `io.err`
 * @throws UsageError on wrong use
 */
export async function runInspect(
  argv: string[],
  io: CliIo,
  surroundings: InspectSurroundings = {},
): Promise<number> {
  const now = surroundings.now ?? Date.now;
  const flags = readInspectFlags(argv, now());
  if (flags === 'help') {
    await io.out(HELP);
    return EXIT.done;
  }
  const config = (): ReturnType<typeof loadConfig> => loadConfig({ listener: 'gateway' });
  const db = flags.db ?? surroundings.default_db ?? config().capture.db;
  const progress = new Progress(io, io.is_terminal, now);
  try {
    // One that is asked for by its number: why it cannot be read is the answer.
    const unreadable = flags.exchange === null && flags.step === null ? new UnreadableExchanges() : undefined;
    const opener = surroundings.open ?? openCapture;
    const open = await opener(resolve(db), config().data_key, unreadable);
    try {
      const columns = surroundings.columns ?? process.stdout.columns;
      const view = openView(open, io, columns, flags, progress);
      if (flags.step !== null) {
        const directory = flags.student ?? config().relegation?.directory ?? null;
        return await (await import('./step-page.ts')).showStep(view, flags.step, directory);
      }
      if (flags.exchange !== null) return await showExchange(view, flags.exchange);
      const runsDbs = surroundings.runs_dbs ?? (await listRunsDbs(resolve(db), config().data_dir));
      const findOutcomes: FindOutcomes = (runs) => readOutcomes(runsDbs, runs, config().data_key);
      const status =
        flags.run === null
          ? await showRuns(view, db, findOutcomes)
          : await showRun(view, flags.run, findOutcomes);
      if (!unreadable?.count) return status;
      progress.clear();
      io.err(`understudy: ${makeHarmlessLine(unreadable.describe())}\n`);
      return EXIT.failed;
    } finally {
      progress.clear();
      await open.close();
    }
  } catch (error) {
    // Their messages name the file and what is wrong with it.
    if (!(error instanceof Error)) throw error;
    if (error.name !== 'CaptureFileError' && error.name !== 'OutcomesError') throw error;
    const isMissing = 'code' in error && error.code === 'missing';
    io.err(
      isMissing
        ? `understudy: there is no capture database at ${makeHarmlessLine(db)}.\n` +
            'Send something through the gateway first (understudy up), or name another file with --db.\n'
        : `understudy: ${makeHarmlessLine(error.message)}\n`,
    );
    return EXIT.failed;
  }
}

function openView(
  open: OpenSource,
  io: CliIo,
  columns: number | undefined,
  flags: InspectFlags,
  progress: Progress,
): InspectView {
  const hasWidth = io.is_terminal && columns !== undefined && columns > 0;
  return {
    source: open.source,
    count: open.count ?? 0,
    io,
    width: hasWidth ? Math.max(40, columns) : Number.POSITIVE_INFINITY,
    flags,
    paint: choosePalette(io.has_color),
    progress,
  };
}

/** Opens a capture database; loaded only now, so that `--help` and mistakes answer at once. */
async function openCapture(
  db: string,
  data_key: Uint8Array | null,
  unreadable?: UnreadableExchanges,
): Promise<OpenSource> {
  // The process is this command's alone, and its garbage would grow to several times what it keeps. V8 passes over a flag
  // that it does not know.
  setFlagsFromString('--heap-growing-percent=50');
  const { CaptureFiles } = await import('./capture-files.ts');
  const files = await CaptureFiles.open(db, {
    cache_bytes: CACHE_BYTES,
    data_key,
    ...(unreadable === undefined ? {} : { unreadable }),
  });
  return { source: files, count: files.count, close: () => files.close() };
}
