/**
 * `understudy inspect`: shows the content of a capture database. The interface of `src/captures/inspect.ts`; its pages
 * are the list of runs (inspect-list.ts), one run (inspect-run.ts) and one exchange (inspect-exchange.ts). Main thread
 * of the command line; reads only.
 *
 * Output is written piece by piece with back-pressure, so a long run is never held whole. Everything from an exchange
 * is made harmless before it reaches a terminal; only `--raw` writes bytes unchanged.
 */

import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { readCaptureOwner } from '../auth/owner.ts';
import type { KeptCacheParts } from '../captures/cache-ledger.ts';
import type { FindStoredRun } from '../captures/captured-runs.ts';
import type { ExchangeSource } from '../captures/exchange-source.ts';
import type { KeptFigureParts } from '../captures/figure-cube.ts';
import type { KeptVerdict } from '../captures/inspect.ts';
import { askRunWords, listWordFolders, readRunWords } from '../captures/run-words.ts';
import { UnreadableExchanges } from '../captures/unreadable-exchanges.ts';
import { loadConfig } from '../config.ts';
import type { Prices } from '../domain/price.ts';
import { SHIPPED_PRICES } from '../domain/price-table.ts';
import { showExchange } from './inspect-exchange.ts';
import { type InspectFlags, readInspectFlags } from './inspect-flags.ts';
import { showRuns } from './inspect-list.ts';
import type { QuestionOfRuns } from './inspect-query.ts';
import { showRun } from './inspect-run.ts';
import type { FindWords, InspectView } from './inspect-view.ts';
import { type CliIo, EXIT } from './io.ts';
import { Progress } from './progress.ts';
import { choosePalette, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Shows the content of a capture database: runs, turns, gaps, bodies, and which runs are golden.

Usage: understudy inspect [--db FILE] [--since WHEN] [--golden | --not-golden] [--limit N] [--json]
       understudy inspect [--db FILE] QUERY [--limit N] [--json | --export csv|jsonl|parquet|otlp]
       understudy inspect [--db FILE] --run ID [--full] [--json]
       understudy inspect [--db FILE] --cache [--run ID | --since WHEN] [--json]
       understudy inspect [--db FILE] --by model|agent|tool|… [--since WHEN] [--json]
       understudy inspect [--db FILE] --limits [--json]
       understudy inspect [--db FILE] --exchange N [--json]
       understudy inspect [--db FILE] --exchange N --raw request|response
       understudy inspect [--db FILE] --step N [--student DIR] [--json]

  --db FILE        capture database; default: DATA_DIR/capture.mdb. Its sealed files are also read. If you name one of
                   these, only that file is read. A running gateway may be writing to it. FILE may also be a bucket
                   (CAPTURE_BUCKET_URL of gateways): the runs of all of them; gateway=NAME in its query picks one
  QUERY            runs that match, captured and reported, in the query's order: 'status:failed tool:run_tests cost:>0.5
                   "date parser" since:7d sort:cost'. docs/queries.md lists the fields
  --export FORMAT  the runs as a file on standard output: csv, jsonl, parquet, or their turns as otlp (docs/export.md)
  --since WHEN     runs with activity then or later: 90m, 12h, 7d ago, or a time such as 2026-05-01 or 2026-05-01T12:00Z
  --golden         only golden runs; --not-golden: only the others. With --limit N the search stops at the Nth match
  --limit N        the latest N runs, 0 for all; default on a terminal: 200
  --run ID         one run as a conversation: the new part of each request, the answer, its time and cost, failures and
                   retries
  --cache          how the turns used the provider's prompt cache: which read less than possible, where their prompts
                   differ, why, and what that cost. Without --run: sums by cause, agent and day; --since then counts
                   whole UTC days
  --by WHAT        cost, tokens, cache share, latency and failed calls by model, provider, agent, tool, tag, note,
                   credential, served_by or day; --since then counts whole UTC days
  --limits         what is left of providers' rate limits and quotas, by credential, and when they run out at the pace
                   of the last hour
  --full           with --run: show long texts completely
  --exchange N     one exchange: status, times, model, usage, headers (credentials are never stored)
  --raw SIDE       the stored body of that exchange, request or response, byte for byte and nothing else
  --step N         why the student served exchange N or did not: the decision, its rule, the nearest golden step, what
                   is new compared with it, and the student's and the upstream's answers
  --student DIR    with --step: the student's directory; default: SVC_DISTILL_DIR
  --json           the same as one JSON document, for programs; with --exchange the exchange record itself

The table has a line for each run, the latest last:
  TURNS     model turns / all exchanges        IN, OUT   tokens, as the providers count them
  ERR       failed calls and tools             GAPS      x-svc-seq numbers that are missing
  GOLDEN    yes, or the reason in short (--run shows all of it). A golden run was captured completely, every failed call
            was retried with success, its last turn ended by itself, and no monitored run says otherwise

Examples:
  understudy inspect
  understudy inspect --since 2h --not-golden
  understudy inspect 'status:failed,error since:7d sort:cost'
  understudy inspect 'since:30d' --export parquet > runs.parquet
  understudy inspect --run checkout-fix-17
  understudy inspect --by model --since 7d
  understudy inspect --cache --since 7d
  understudy inspect --exchange 42 --raw response | jq .
  understudy inspect --json | jq -r '.runs[] | select(.golden) | .run_id'

Exit status: 0 done, 1 failed (no such database, run, exchange or body; something is damaged: the rest is shown),
2 wrong use.
`;

/**
 * Maximum bytes of unpacked blocks that are cached per open file. A small cache is enough, because exchanges are read
 * in order.
 */
const CACHE_BYTES = 8 * 1024 * 1024;

/** Surroundings that tests may replace. */
export interface InspectSurroundings {
  /** Used without --db. */
  default_db?: string;
  /** Width of the terminal. */
  columns?: number;
  /** Opens the database; default: CaptureFiles. */
  open?: (db: string, dataKey: Uint8Array | null, unreadable?: UnreadableExchanges) => Promise<OpenSource>;
  /** Folders whose databases have marks and outcomes of runs; default: DATA_DIR and the file's folder. */
  said_in?: string[];
  now?: () => number;
}

/** An open database, and how to close it. */
export interface OpenSource {
  source: ExchangeSource;
  /** Total number of exchanges, for the progress. */
  count?: number;
  /** Verdicts that the service has stored. */
  kept?: KeptVerdict;
  /** The stored verdicts, with the runs' first words. */
  keptRun?: FindStoredRun;
  /** Sums of cache misses that the service has stored. */
  keptCache?: (prices: Prices) => KeptCacheParts | null;
  /** Sums of figures that the service has stored. */
  keptFigures?: (prices: Prices) => KeptFigureParts | null;
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
  const query = flags.query === '' && flags.format === null ? null : await readQuery(flags);
  const config = (): ReturnType<typeof loadConfig> => loadConfig({ listener: 'gateway' });
  const db = flags.db ?? surroundings.default_db ?? config().capture.db;
  const progress = new Progress(io, now);
  try {
    // If an exchange is requested by number and cannot be read, the reason is the answer.
    const unreadable = flags.exchange === null && flags.step === null ? new UnreadableExchanges() : undefined;
    const opener = surroundings.open ?? openCapture;
    const open = await opener(resolve(db), config().data_key, unreadable);
    try {
      const columns = surroundings.columns ?? process.stdout.columns;
      const view = openView(open, io, columns, flags, progress, config().capture.prices ?? SHIPPED_PRICES);
      if (flags.step !== null) {
        const { relegation, relegation_wires } = config();
        const directory = flags.student ?? relegation?.directory ?? null;
        return await (await import('./step-page.ts')).showStep(view, flags.step, directory, relegation_wires);
      }
      if (flags.exchange !== null) return await showExchange(view, flags.exchange);
      if (flags.by !== null) {
        const { showFigures } = await import('./inspect-figures.ts');
        return await showFigures(view, flags.by, open.keptFigures?.(view.prices) ?? null, now());
      }
      if (flags.limits) return await (await import('./inspect-limits.ts')).showLimits(view, now());
      if (flags.cache) {
        const { showCache, showRunCache } = await import('./inspect-cache.ts');
        return flags.run === null
          ? await showCache(view, open.keptCache?.(view.prices) ?? null, now())
          : await showRunCache(view, flags.run);
      }
      const folders = surroundings.said_in ?? listWordFolders(db, config().data_dir);
      const reader = { data_key: config().data_key, owner: readCaptureOwner(config()) };
      const findWords: FindWords = (runs) => readRunWords(folders, reader, runs);
      const showAll = (): Promise<number> => {
        if (query === null) return showRuns(view, db, findWords, open.kept);
        const texts = query.openTexts(view.source, resolve(db), config().data_key);
        return askRunWords(folders, reader, texts, (said) =>
          query.show(view, db, { said, texts, now_ms: now(), findStored: open.keptRun }),
        );
      };
      const status = flags.run === null ? await showAll() : await showRun(view, flags.run, findWords);
      if (!unreadable?.count) return status;
      progress.clear();
      io.err(`understudy: ${makeHarmlessLine(unreadable.describe())}\n`);
      return EXIT.failed;
    } finally {
      progress.clear();
      await open.close();
    }
  } catch (error) {
    // The messages of these errors name the file and the fault.
    if (!(error instanceof Error)) throw error;
    if (error.name !== 'CaptureFileError' && error.name !== 'RunWordsError') throw error;
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

/** Reads the query of the command, and loads the code that shows its runs. @throws UsageError */
async function readQuery(flags: InspectFlags) {
  const { openTexts, readInspectQuery, showQuery } = await import('./inspect-query.ts');
  const query = readInspectQuery(flags.query, flags);
  return {
    openTexts,
    show: (view: InspectView, db: string, known: Omit<QuestionOfRuns, 'query'>): Promise<number> =>
      showQuery(view, db, { query, ...known }),
  };
}

function openView(
  open: OpenSource,
  io: CliIo,
  columns: number | undefined,
  flags: InspectFlags,
  progress: Progress,
  prices: Prices,
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
    prices,
  };
}

/**
 * Opens a capture database. Its module is loaded only here, so that `--help` and errors in the arguments need no wait.
 */
async function openCapture(
  db: string,
  data_key: Uint8Array | null,
  unreadable?: UnreadableExchanges,
): Promise<OpenSource> {
  // Without this flag, the garbage of this command would grow to several times its live data. Nothing else runs in the
  // process. V8 ignores flags that it does not know.
  setFlagsFromString('--heap-growing-percent=50');
  const { CaptureFiles } = await import('../captures/capture-files.ts');
  const files = await CaptureFiles.open(db, {
    cache_bytes: CACHE_BYTES,
    data_key,
    ...(unreadable === undefined ? {} : { unreadable }),
  });
  const { KeptIndex } = await import('./kept-index.ts');
  const kept = new KeptIndex(db, data_key);
  const close = async () => {
    await Promise.all([files.close(), kept.close()]);
  };
  return {
    source: files,
    count: files.count,
    kept: kept.find,
    keptRun: kept.findRun,
    keptCache: (prices) => kept.cacheParts(files, prices),
    keptFigures: (prices) => kept.figureParts(files, prices),
    close,
  };
}
