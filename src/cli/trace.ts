/**
 * `understudy trace`: the runs of a capture database as `svc_trace_v1`, one JSON line per run. The interface of
 * `src/captures/trace.ts`: flags, progress, the destination of the lines. Main thread of the command line; reads only.
 *
 * With --out the lines are written to `FILE.partial`, which is renamed to FILE when it is complete. With the journal
 * beside it (`FILE.partial.json`, one line per run) an interrupted trace is continued.
 */

import { existsSync } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { readCaptureOwner } from '../auth/owner.ts';
import type { ExchangeSource } from '../captures/exchange-source.ts';
import { RunChains } from '../captures/run-chains.ts';
import { listWordFolders, readRunWords } from '../captures/run-words.ts';
import { describeRun, type TracedRun, traceRun } from '../captures/trace.ts';
import { UnreadableExchanges } from '../captures/unreadable-exchanges.ts';
import { loadConfig } from '../config.ts';
import { NO_WORDS, type RunWords } from '../domain/run-mark.ts';
import { countOf } from '../std/count-of.ts';
import { namePlace } from '../std/file-place.ts';
import { readFlags } from './flags.ts';
import { describeNotIndexed } from './inspect-list.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { escapeJson, formatJson, makeHarmlessLine } from './terminal-text.ts';

/**
 * A line of a trace is held back up to this length, so that it is written whole or not at all. Longer lines are
 * streamed.
 */
const TRACE_LINE_HELD_CHARS = 16 << 20;

const HELP = `Writes the runs of a capture database as JSON lines (svc_trace_v1): every turn that did not fail, in the same
form for all providers, and whether the run is golden. Sealed files beside the database are also read.

Usage: understudy trace [--db FILE] [--run ID] [--out FILE]

  --db FILE    capture database; default: DATA_DIR/capture.mdb. A running gateway may be writing to it: the trace has the
               exchanges that are stored when it begins. If you name a sealed file, only that file is read
  --run ID     only this run
  --out FILE   file for the lines; default: standard output. FILE appears when everything is written. An interrupted trace
               continues where it stopped if you start it again

A line: {format, run_id, provider, model, task, note, started_at, finished_at, outcome, turns: [{seq, exchange_id,
system, messages_added, tools, content, stop_reason, usage, latency_ms, served_by}], provenance: {exchanges, first_seq,
last_seq, gaps, complete, supports_universal_claims, reasons, ended}}. docs/traces.md describes the fields.

Examples:
  understudy trace --out traces.jsonl
  understudy trace --run checkout-fix-17 | jq '.turns[].content'
  understudy trace | jq -r 'select(.provenance.supports_universal_claims | not) | .run_id, .provenance.reasons[].words'

Exit status: 0 done, 1 failed (no such database or run; something is damaged: the rest is written), 2 wrong use.
`;

/** The part of a capture database that is read. `CaptureFiles` is an implementation. */
export interface TraceSource extends ExchangeSource {
  /** Exchanges in all. */
  readonly count: number;
  hasFile(sha256: string): boolean;
  close(): Promise<void>;
}

/** Surroundings that tests may replace. */
export interface TraceSurroundings {
  /** Used without --db. */
  default_db?: string;
  /** Opens the database; default: CaptureFiles. */
  open?: (db: string, dataKey: Uint8Array | null, unreadable: UnreadableExchanges) => Promise<TraceSource>;
  /** Folders whose databases hold statements about runs; default: DATA_DIR and the file's folder. */
  said_in?: string[];
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
  // This is checked at the start, because the rename at the end would fail only after the work.
  if (out !== undefined && (await stat(out).catch(() => null))?.isDirectory()) {
    io.err(`understudy: ${makeHarmlessLine(out)} is a folder: name a file with --out\n`);
    return EXIT.failed;
  }
  const progress = new Progress(
    out === undefined ? { ...io, shows_progress: false } : io,
    surroundings.now ?? Date.now,
  );
  try {
    const unreadable = new UnreadableExchanges();
    const source = await (surroundings.open ?? openFiles)(db, config().data_key, unreadable);
    try {
      const chains = new RunChains(run ?? null);
      await chains.addAll(source, ({ id }) =>
        progress.tell(`looking through exchange ${id}`, 0, source.count),
      );
      warnOfMissing(chains, io);
      if (run !== undefined && chains.size === 0) {
        io.err(
          `understudy: the database has no run ${formatJson(run, 0)}.\nTo list its runs: understudy inspect\n`,
        );
        return EXIT.failed;
      }
      const folders = surroundings.said_in ?? listWordFolders(db, config().data_dir);
      const words = await readRunWords(
        folders,
        { data_key: config().data_key, owner: readCaptureOwner(config()) },
        chains,
      );
      const sink =
        out === undefined ? new StreamSink(io) : await FileSink.open(out, { db, run: run ?? null });
      try {
        const totals = await traceAll(source, chains, words, sink, progress);
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
    if (error.name === 'CaptureFileError' || error.name === 'RunWordsError') {
      io.err(`understudy: ${makeHarmlessLine(error.message)}\n`);
      return EXIT.failed;
    }
    throw error;
  }
}

/** Warns about runs and exchanges that the trace leaves out. */
function warnOfMissing({ forgotten, not_indexed }: RunChains, io: CliIo): void {
  if (forgotten > 0)
    io.err(
      `warning: ${countOf(forgotten, 'earlier run')} left out, because one trace cannot hold more: --run ID writes a single run\n`,
    );
  if (not_indexed > 0) io.err(`warning: ${describeNotIndexed(not_indexed)}\n`);
}

interface Totals {
  runs: number;
  turns: number;
  golden: number;
}

async function traceAll(
  source: TraceSource,
  chains: RunChains,
  words: ReadonlyMap<string, RunWords>,
  sink: LineSink,
  progress: Progress,
): Promise<Totals> {
  const totals: Totals = { runs: 0, turns: 0, golden: 0 };
  let exchanges = 0;
  for (const chained of chains.runs) {
    const run = describeRun(source, chains, chained);
    if (run === null) continue;
    const said = words.get(run.run_id) ?? NO_WORDS;
    const done = await sink.skip(run, said);
    const end = done ?? (await writeLine(source, chains, run, said, sink));
    if (done === null) await sink.endLine(run, said, end);
    totals.runs += 1;
    totals.turns += end.turns;
    totals.golden += end.golden ? 1 : 0;
    exchanges += run.exchanges;
    await source.release?.();
    progress.tell(`run ${totals.runs} of ${chains.size}`, exchanges, source.count);
  }
  return totals;
}

/** Writes one run; up to TRACE_LINE_HELD_CHARS the line is written whole or not at all. */
async function writeLine(
  source: TraceSource,
  chains: RunChains,
  run: TracedRun,
  words: RunWords,
  sink: LineSink,
): Promise<LineEnd> {
  const pieces = traceRun(source, chains, run, { words, hasFile: (sha256) => source.hasFile(sha256) });
  let held: string[] = [];
  let heldChars = 0;
  for (;;) {
    const next = pieces.next();
    if (next.done === true) {
      await sink.write(held.join(''));
      return next.value;
    }
    held.push(escapeJson(next.value));
    heldChars += next.value.length;
    if (heldChars < TRACE_LINE_HELD_CHARS) continue;
    // The pieces are written one by one, because together they might exceed the maximum length of a string.
    for (const piece of held) await sink.write(piece);
    held = [];
    heldChars = 0;
  }
}

function describe({ runs, turns, golden }: Totals, out: string): string {
  return `${countOf(runs, 'run')}, ${countOf(turns, 'turn')}, ${golden.toLocaleString('en-US')} golden: ${makeHarmlessLine(out)}\n`;
}

/** The stored facts about a written line. */
interface LineEnd {
  golden: boolean;
  turns: number;
}

/** The destination of the lines. */
interface LineSink {
  /** Skips a run whose line an interrupted trace has written. @returns the facts about that line; null: write the run */
  skip(run: TracedRun, words: RunWords): Promise<LineEnd | null>;
  write(piece: string): Promise<void>;
  endLine(run: TracedRun, words: RunWords, end: LineEnd): Promise<void>;
  /** Everything is written. */
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

/** A line of the journal: the run, its state, and the end of its line in the partial file. */
interface JournalLine extends LineEnd {
  run_id: string;
  exchanges: number;
  last_id: number;
  mark: string;
  words: RunWords;
  end: number;
}

/** Writes to `FILE.partial` with a journal, and renames at the end. */
class FileSink implements LineSink {
  readonly #path: string;
  readonly #lines: FileHandle;
  readonly #journal: FileHandle;
  /** The lines of an earlier trace, oldest first. The list ends at the first mismatch. */
  readonly #earlier: JournalLine[];
  #taken = 0;
  #resuming: boolean;
  #journalEnd: number;
  #end = 0;

  /**
   * Opens the partial file and its journal, or continues those of an interrupted trace.
   * @param of the database and the run. An interrupted trace is continued only if both are the same
   * @throws the system's error when the file cannot be created
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

  async skip(run: TracedRun, words: RunWords): Promise<LineEnd | null> {
    const line = this.#earlier[this.#taken];
    const isSame =
      line !== undefined &&
      line.run_id === run.run_id &&
      line.exchanges === run.exchanges &&
      line.last_id === run.last_id &&
      line.mark === run.mark &&
      line.words?.outcome === words.outcome &&
      line.words.mark === words.mark;
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

  async endLine(run: TracedRun, words: RunWords, { golden, turns }: LineEnd): Promise<void> {
    const { run_id, exchanges, last_id, mark } = run;
    const line: JournalLine = { run_id, exchanges, last_id, mark, words, end: this.#end, golden, turns };
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

/** Journal lines of an interrupted trace; empty if there is no journal, or if it belongs to another trace. */
async function readJournal(path: string, head: string): Promise<JournalLine[]> {
  if (!existsSync(`${path}.partial`) || !existsSync(`${path}.partial.json`)) return [];
  const text = await readFile(`${path}.partial.json`, 'utf8');
  const { size } = await stat(`${path}.partial`);
  if (!text.startsWith(head)) return [];
  const lines: JournalLine[] = [];
  // The bytes after the last line end were being written at the interruption.
  for (const line of text.slice(head.length, text.lastIndexOf('\n') + 1).split('\n')) {
    if (line === '') continue;
    try {
      const read = JSON.parse(line) as JournalLine;
      // After a power failure, the journal may list more than has reached the disk.
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
  const { CaptureFiles } = await import('../captures/capture-files.ts');
  return CaptureFiles.open(db, { data_key, unreadable });
}
