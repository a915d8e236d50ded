/**
 * `understudy trace`: the runs of a capture database as `svc_trace_v1`, one JSON line a run. The face of
 * `src/analysis/trace.ts`: flags, progress, where the lines go. Main thread of the command line; reads only.
 *
 * With --out the lines go into `FILE.partial`, which gets the name FILE when it is whole. With the journal beside it
 * (`FILE.partial.json`, a line a run) an interrupted trace goes on where it stopped.
 */

import { existsSync } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { ExchangeSource } from '../analysis/exchange-source.ts';
import { RunChains } from '../analysis/run-chains.ts';
import { describeRun, type TracedRun, traceRun } from '../analysis/trace.ts';
import { loadConfig } from '../config.ts';
import { TRACE_LINE_HELD_CHARS } from '../limits.ts';
import { countOf } from '../std/count-of.ts';
import { namePlace } from '../std/file-place.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { listRunsDbs, OutcomesError, readOutcomes } from './run-outcomes.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';
import { UnreadableExchanges } from './unreadable-exchanges.ts';

const HELP = `Writes the runs of a capture database as JSON lines (svc_trace_v1): every turn in one form for all providers, and
whether the run proves what it shows (golden). Sealed files beside the database are read with it.

Usage: understudy trace [--db FILE] [--run ID] [--out FILE]

  --db FILE    capture database; DATA_DIR/capture.mdb when not given. A running gateway may be writing to it: the trace
               has what is there when it begins. You can also name a sealed file, which is then read alone.
  --run ID     this run alone
  --out FILE   where the lines go; standard output when not given. FILE appears when all is written; start an
               interrupted trace again, and it goes on where it stopped.

A line: {format, run_id, provider, model, task, note, started_at, finished_at, outcome, turns: [{seq, exchange_id,
system, messages_added, tools, content, stop_reason, usage, latency_ms, served_by}], provenance: {exchanges, first_seq,
last_seq, gaps, complete, supports_universal_claims, reasons}}. docs/traces.md says what is in them.

Examples:
  understudy trace --out traces.jsonl
  understudy trace --run checkout-fix-17 | jq '.turns[].content'
  understudy trace | jq -r 'select(.provenance.supports_universal_claims | not) | .run_id, .provenance.reasons[].words'

Exit status: 0 done, 1 failed (no such database or run; something is damaged: the rest is written), 2 wrong use.
`;

/** What is read of a capture database. `CaptureFiles` is one. */
export interface TraceSource extends ExchangeSource {
  /** Exchanges in all. */
  readonly count: number;
  hasFile(sha256: string): boolean;
  close(): Promise<void>;
}

/** What a test may put in place of the real surroundings. */
export interface TraceSurroundings {
  /** Used when --db is not given. */
  default_db?: string;
  /** Opens the database; CaptureFiles when not given. */
  open?: (db: string, dataKey: Uint8Array | null, unreadable: UnreadableExchanges) => Promise<TraceSource>;
  /** Databases of finished monitor runs that may speak against a run; those of DATA_DIR and beside the file. */
  runs_dbs?: string[];
  now?: () => number;
}

/**
 * Runs the command.
 * @param argv what follows `understudy trace`
 * @returns the exit status: 0 done, 1 failed; failures go to `io.err`
 * @throws UsageError on wrong use
 */
export async function runTrace(
  argv: string[],
  io: CliIo,
  surroundings: TraceSurroundings = {},
): Promise<number> {
  const { db: named, run, out, help } = readFlags(argv, { db: 'text', run: 'text', out: 'text' });
  if (help === true) {
    await io.out(HELP);
    return EXIT.done;
  }
  if (named === '') throw new UsageError('--db takes the path of a file');
  if (out === '') throw new UsageError('--out takes the path of a file');
  const config = (): ReturnType<typeof loadConfig> => loadConfig({ listener: 'gateway' });
  const db = resolve(named ?? surroundings.default_db ?? config().capture.db);
  if (out !== undefined && (resolve(out) === db || `${resolve(out)}.partial` === db))
    throw new UsageError('--out would overwrite the database');
  // Known only when all is written, else: the file takes its name then.
  if (out !== undefined && (await stat(out).catch(() => null))?.isDirectory()) {
    io.err(`understudy: ${makeHarmlessLine(out)} is a folder: name a file with --out\n`);
    return EXIT.failed;
  }
  const progress = new Progress(io, io.is_terminal && out !== undefined, surroundings.now ?? Date.now);
  try {
    const unreadable = new UnreadableExchanges();
    const source = await (surroundings.open ?? openFiles)(db, config().data_key, unreadable);
    try {
      const chains = new RunChains(run ?? null);
      await chains.addAll(source, ({ id }) =>
        progress.tell(`looking through exchange ${id}`, 0, source.count),
      );
      if (chains.forgotten > 0)
        io.err(
          `warning: ${countOf(chains.forgotten, 'earlier run')} beyond what one trace holds: see --run\n`,
        );
      if (run !== undefined && chains.size === 0) {
        io.err(
          `understudy: the database has no run ${formatJson(run, 0)}.\nWhich runs it has: understudy inspect\n`,
        );
        return EXIT.failed;
      }
      const runsDbs = surroundings.runs_dbs ?? (await listRunsDbs(db, config().data_dir));
      const outcomes = await readOutcomes(runsDbs, chains, config().data_key);
      const sink =
        out === undefined ? new StreamSink(io) : await FileSink.open(out, { db, run: run ?? null });
      try {
        const totals = await traceAll(source, chains, outcomes, sink, progress);
        await sink.finish();
        progress.clear();
        if (out !== undefined) await io.out(describe(totals, out));
      } finally {
        await sink.close();
      }
      if (unreadable.count === 0) return EXIT.done;
      io.err(`understudy: ${makeHarmlessLine(unreadable.describe())}\n`);
      return EXIT.failed;
    } finally {
      await source.close();
    }
  } catch (error) {
    progress.clear();
    if (!(error instanceof Error)) throw error;
    if (error.name === 'CaptureFileError' || error instanceof OutcomesError) {
      io.err(`understudy: ${makeHarmlessLine(error.message)}\n`);
      return EXIT.failed;
    }
    throw error;
  }
}

interface Totals {
  runs: number;
  turns: number;
  golden: number;
}

async function traceAll(
  source: TraceSource,
  chains: RunChains,
  outcomes: ReadonlyMap<string, string>,
  sink: LineSink,
  progress: Progress,
): Promise<Totals> {
  const totals: Totals = { runs: 0, turns: 0, golden: 0 };
  let exchanges = 0;
  for (const chained of chains.runs) {
    const run = describeRun(source, chains, chained);
    if (run === null) continue;
    const outcome = outcomes.get(run.run_id) ?? null;
    const done = await sink.skip(run, outcome);
    const end = done ?? (await writeLine(source, chains, run, outcome, sink));
    if (done === null) await sink.endLine(run, outcome, end);
    totals.runs += 1;
    totals.turns += end.turns;
    totals.golden += end.golden ? 1 : 0;
    exchanges += run.exchanges;
    await source.release?.();
    progress.tell(`run ${totals.runs} of ${chains.size}`, exchanges, source.count);
  }
  return totals;
}

/** Writes one run; up to TRACE_LINE_HELD_CHARS the line goes out whole or not at all. */
async function writeLine(
  source: TraceSource,
  chains: RunChains,
  run: TracedRun,
  outcome: string | null,
  sink: LineSink,
): Promise<LineEnd> {
  const pieces = traceRun(source, chains, run, { outcome, hasFile: (sha256) => source.hasFile(sha256) });
  let held: string[] = [];
  let heldChars = 0;
  for (;;) {
    const next = pieces.next();
    if (next.done === true) {
      await sink.write(held.join(''));
      return next.value;
    }
    held.push(next.value);
    heldChars += next.value.length;
    if (heldChars < TRACE_LINE_HELD_CHARS) continue;
    // One by one: joined they might be longer than a string can be.
    for (const piece of held) await sink.write(piece);
    held = [];
    heldChars = 0;
  }
}

function describe({ runs, turns, golden }: Totals, out: string): string {
  return `${countOf(runs, 'run')}, ${countOf(turns, 'turn')}, ${golden.toLocaleString('en-US')} golden: ${makeHarmlessLine(out)}\n`;
}

/** What is remembered of a line that was written. */
interface LineEnd {
  golden: boolean;
  turns: number;
}

/** Where the lines go. */
interface LineSink {
  /** What is known of the run's line when an earlier, interrupted trace has written it as it would be now; else null. */
  skip(run: TracedRun, outcome: string | null): Promise<LineEnd | null>;
  write(piece: string): Promise<void>;
  endLine(run: TracedRun, outcome: string | null, end: LineEnd): Promise<void>;
  /** All is written. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

class StreamSink implements LineSink {
  readonly #io: CliIo;

  constructor(io: CliIo) {
    this.#io = io;
  }

  async skip(): Promise<null> {
    return null;
  }

  write(piece: string): Promise<void> {
    return this.#io.out(piece);
  }

  async endLine(): Promise<void> {}
  async finish(): Promise<void> {}
  async close(): Promise<void> {}
}

/** A line of the journal: which run, as of when, and where its line ends in the partial file. */
interface JournalLine extends LineEnd {
  run_id: string;
  exchanges: number;
  last_id: number;
  mark: string;
  outcome: string | null;
  end: number;
}

/** Writes into `FILE.partial`, with a journal, and renames at the end. */
class FileSink implements LineSink {
  readonly #path: string;
  readonly #lines: FileHandle;
  readonly #journal: FileHandle;
  /** What an earlier trace has written, oldest first; what does not fit any more ends it. */
  readonly #earlier: JournalLine[];
  #taken = 0;
  #resuming: boolean;
  #journalEnd: number;
  #end = 0;

  /**
   * @param of what is traced: only a trace of the same goes on
   * @throws the system's error when the file cannot be made
   */
  static async open(path: string, of: { db: string; run: string | null }): Promise<FileSink> {
    const head = `${JSON.stringify({ format: 'svc_trace_v1', ...of })}\n`;
    const earlier = await readJournal(path, head);
    const flags = earlier.length === 0 ? 'w' : 'r+';
    const lines = await open(`${path}.partial`, flags);
    try {
      const journal = await open(`${path}.partial.json`, flags);
      try {
        if (flags === 'w') await journal.write(head, 0);
        return new FileSink(path, lines, journal, earlier, Buffer.byteLength(head));
      } catch (error) {
        await journal.close();
        throw namePlace(error, path);
      }
    } catch (error) {
      await lines.close();
      throw error;
    }
  }

  private constructor(
    path: string,
    lines: FileHandle,
    journal: FileHandle,
    earlier: JournalLine[],
    journalEnd: number,
  ) {
    this.#path = path;
    this.#lines = lines;
    this.#journal = journal;
    this.#earlier = earlier;
    this.#resuming = earlier.length > 0;
    this.#journalEnd = journalEnd;
  }

  async skip(run: TracedRun, outcome: string | null): Promise<LineEnd | null> {
    const line = this.#earlier[this.#taken];
    const isSame =
      line !== undefined &&
      line.run_id === run.run_id &&
      line.exchanges === run.exchanges &&
      line.last_id === run.last_id &&
      line.mark === run.mark &&
      line.outcome === outcome;
    if (this.#resuming && isSame) {
      this.#taken += 1;
      this.#end = line.end;
      this.#journalEnd += Buffer.byteLength(`${JSON.stringify(line)}\n`);
      return line;
    }
    if (this.#resuming) {
      this.#resuming = false;
      await this.#lines.truncate(this.#end);
      await this.#journal.truncate(this.#journalEnd);
    }
    return null;
  }

  async write(piece: string): Promise<void> {
    const bytes = Buffer.from(piece, 'utf8');
    let at = 0;
    while (at < bytes.byteLength) {
      const writing = this.#lines.write(bytes, at, bytes.byteLength - at, this.#end);
      const { bytesWritten } = await writing.catch(this.#refuse);
      at += bytesWritten;
      this.#end += bytesWritten;
    }
  }

  async endLine(run: TracedRun, outcome: string | null, { golden, turns }: LineEnd): Promise<void> {
    const { run_id, exchanges, last_id, mark } = run;
    const line: JournalLine = { run_id, exchanges, last_id, mark, outcome, end: this.#end, golden, turns };
    const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
    await this.#journal.write(bytes, 0, bytes.byteLength, this.#journalEnd).catch(this.#refuse);
    this.#journalEnd += bytes.byteLength;
  }

  async finish(): Promise<void> {
    await this.#lines.truncate(this.#end);
    await this.#lines.sync().catch(this.#refuse);
    await rename(`${this.#path}.partial`, this.#path);
    await rm(`${this.#path}.partial.json`, { force: true });
  }

  async close(): Promise<void> {
    await this.#lines.close();
    await this.#journal.close();
  }

  readonly #refuse = (error: unknown): never => {
    throw namePlace(error, this.#path);
  };
}

/** Lines of the journal of an interrupted trace; none when there is none, or one of something else. */
async function readJournal(path: string, head: string): Promise<JournalLine[]> {
  if (!existsSync(`${path}.partial`) || !existsSync(`${path}.partial.json`)) return [];
  const text = await readFile(`${path}.partial.json`, 'utf8');
  const { size } = await stat(`${path}.partial`);
  if (!text.startsWith(head)) return [];
  const lines: JournalLine[] = [];
  // What comes behind the last line end was being written when the trace was interrupted.
  for (const line of text.slice(head.length, text.lastIndexOf('\n') + 1).split('\n')) {
    if (line === '') continue;
    try {
      const read = JSON.parse(line) as JournalLine;
      // After a power cut the journal may know of more than has reached the disk.
      if (!(read.end <= size)) break;
      lines.push(read);
    } catch {
      break;
    }
  }
  return lines;
}

async function openFiles(
  db: string,
  data_key: Uint8Array | null,
  unreadable: UnreadableExchanges,
): Promise<TraceSource> {
  const { CaptureFiles } = await import('./capture-files.ts');
  return CaptureFiles.open(db, { data_key, unreadable });
}
