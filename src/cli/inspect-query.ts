/**
 * `understudy inspect QUERY`: the runs that match a query, in its order, as a table or as JSON. It lists what
 * `GET /capture/runs?q=…` lists, but reads everything first. Main thread of the command line.
 */

import { CapturedRuns, type FindStoredRun, RunWithin } from '../captures/captured-runs.ts';
import { type ExchangeSource, readInOrder } from '../captures/exchange-source.ts';
import type { SaidOfRuns } from '../captures/run-entry.ts';
import { RunTexts } from '../captures/run-texts.ts';
import { CAPTURES } from '../contract/captures.ts';
import type { CapturedRunRow } from '../domain/captured-run.ts';
import type { SearchedExchanges } from '../domain/placed-text.ts';
import { parseRunQuery } from '../domain/run-query/parse.ts';
import { printRunQuery } from '../domain/run-query/print.ts';
import { type RunQuery, RunQueryError, type Term } from '../domain/run-query/run-query.ts';
import { columnsIn, type ExportRow } from '../export/columns.ts';
import { exportRows } from '../export/export-rows.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { writeRunSpans } from '../otel/run-spans.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { countOf } from '../std/count-of.ts';
import { openDataKey } from '../std/data-key.ts';
import { TextSearch } from '../storage/text-index/text-search.ts';
import type { InspectExport, InspectFlags } from './inspect-flags.ts';
import { describeNotIndexed, formatTokens, TERMINAL_RUNS } from './inspect-list.ts';
import { formatCount, formatMs, type InspectView, nameAll } from './inspect-view.ts';
import { EXIT, UsageError } from './io.ts';
import { type Cell, formatJson, layOutTable, makeHarmlessLine } from './terminal-text.ts';

/** Maximum number of runs that are written at once. */
const PAGE_RUNS = 500;
/** Number of columns for a run's first words on a wide terminal. */
const TASK_COLUMNS = 60;

/**
 * The query of the command: its words, with the flags that narrow it.
 * @throws UsageError that marks the wrong word
 */
export function readInspectQuery(text: string, flags: Pick<InspectFlags, 'since_ms' | 'golden'>): RunQuery {
  const query = parse(text);
  const { since_ms, golden } = flags;
  const terms: Term[] = [...query.terms];
  if (golden !== undefined) terms.push({ kind: 'choice', field: 'is', values: ['golden'], is_not: !golden });
  if (since_ms !== undefined) {
    const point = { from_ms: since_ms, to_ms: since_ms, text: new Date(since_ms).toISOString() };
    const range = { low: { point, is_after: false }, high: null };
    terms.push({ kind: 'time', field: 'finished', values: [range], is_not: false });
  }
  return { ...query, terms };
}

function parse(text: string): RunQuery {
  try {
    return parseRunQuery(text);
  } catch (thrown) {
    if (!(thrown instanceof RunQueryError)) throw thrown;
    const { from, to, message } = thrown;
    const mark = `${' '.repeat(from)}${'^'.repeat(Math.max(1, to - from))}`;
    throw new UsageError(`${message}\n  ${makeHarmlessLine(text)}\n  ${mark}`);
  }
}

/** Searches what was said in runs, as far as the gateway has indexed it. */
export function openTexts(source: ExchangeSource, db: string, dataKey: Uint8Array | null): RunTexts {
  return new RunTexts(source, new TextSearch(db, openDataKey(dataKey)));
}

/**
 * Shows the matching runs.
 * @returns the exit status
 */
export async function showQuery(view: InspectView, db: string, question: QuestionOfRuns): Promise<number> {
  const { format } = view.flags;
  if (format !== null) return exportFound(view, format, question);
  const { query, texts } = question;
  const read = readRuns(view, question, true);
  const rows: CapturedRunRow[] = [];
  for await (const page of read.pages) rows.push(...page);
  const { runs, not_indexed, first_id, last_id } = read;
  view.progress.clear();
  const found: FoundRows = {
    rows,
    // If the limit was not reached, all runs were read, and `rows` has all that matched.
    matched: rows.length < read.most ? rows.length : read.count,
    not_indexed,
    left_out_runs: runs.left_out,
    searched: texts.searched([{ first_id, last_id }]),
  };
  await view.io.out(view.flags.json ? writeJson(db, query, found) : writeTable(view, found));
  return EXIT.done;
}

export interface QuestionOfRuns {
  query: RunQuery;
  /** What people and agents said about the runs, read completely. */
  said: SaidOfRuns;
  /** The search for texts in runs. */
  texts: RunTexts;
  now_ms: number;
  /** Facts about runs that the service has stored. */
  findStored: FindStoredRun | undefined;
}

/**
 * Reads all exchanges, and then the runs that match, as many as the flags allow.
 * @param readsBodies false: first words and verdicts may be missing
 */
function readRuns(
  view: InspectView,
  { query, said, texts, now_ms, findStored }: QuestionOfRuns,
  readsBodies: boolean,
) {
  texts.begin();
  const runs = new CapturedRuns({
    prices: view.prices,
    said,
    ...(findStored === undefined ? {} : { findStored }),
  });
  let not_indexed = 0;
  let [first_id, last_id] = [1, 0];
  for (const record of view.source.summaries()) {
    if (last_id === 0) first_id = record.id;
    last_id = record.id;
    if (record.not_indexed) not_indexed += 1;
    else runs.add(record);
    view.progress.tell('looking through the exchanges', record.id, view.count);
  }
  const { json, format, limit } = view.flags;
  const isTable = view.io.is_terminal && !json && format === null;
  const most = limit ?? (isTable ? TERMINAL_RUNS : Number.POSITIVE_INFINITY);
  const { count, rows } = runs.all(view.source, { query, now_ms }, readsBodies);
  async function* readPages(): AsyncGenerator<CapturedRunRow[]> {
    let page: CapturedRunRow[] = [];
    let read = 0;
    for (const row of rows) {
      page.push(row);
      read += 1;
      // An export that goes to the terminal itself would be mixed with the progress.
      if (format === null || !view.io.is_terminal)
        view.progress.tell('reading the runs', read, Math.min(count, most));
      if (read === most) break;
      if (page.length < PAGE_RUNS) continue;
      yield page;
      page = [];
      await view.source.release?.();
    }
    if (page.length > 0) yield page;
  }
  return { runs, count, most, not_indexed, first_id, last_id, pages: readPages() };
}

/** Writes the runs as a file to standard output. */
async function exportFound(
  view: InspectView,
  format: InspectExport,
  question: QuestionOfRuns,
): Promise<number> {
  // Spans show neither first words nor verdicts.
  const { runs, pages } = readRuns(view, question, format !== 'otlp');
  const pieces =
    format === 'otlp'
      ? writeSpans(view, runs, pages)
      : exportRows(
          format,
          columnsIn(CAPTURES.listCapturedRuns.replies[200].schema, 'runs'),
          pages as AsyncIterable<readonly unknown[]> as AsyncIterable<readonly ExportRow[]>,
        );
  if (view.io.is_terminal) view.progress.clear();
  for await (const piece of pieces) await view.io.out(piece);
  view.progress.clear();
  return EXIT.done;
}

/** A line of OTLP/JSON for each captured run. */
async function* writeSpans(
  { source }: InspectView,
  runs: CapturedRuns,
  pages: AsyncIterable<readonly CapturedRunRow[]>,
) {
  function* turnsOf(part: ExchangeSource, runId: string) {
    for (const record of readInOrder(part, runId)) {
      if (record.kind !== 'turn') continue;
      const copy = source.copy(record.id);
      yield { record, turn: copy === undefined ? null : normalizeTurn(copy) };
    }
  }
  for await (const rows of pages)
    for (const { run_id } of rows) {
      // A run that was only reported has no turns. The range limits the search to the run's exchanges.
      const range = runs.rangeOf(run_id);
      if (range === undefined) continue;
      const spans = writeRunSpans(turnsOf(new RunWithin(source, range.first_id, range.last_id), run_id));
      if (spans !== null) yield Buffer.concat([spans, Buffer.from('\n')]);
    }
}

interface FoundRows {
  rows: CapturedRunRow[];
  /** All matching runs, including runs that may match but were not read to the end. */
  matched: number;
  not_indexed: number;
  left_out_runs: number;
  /** null: the query has no text. */
  searched: SearchedExchanges | null;
}

function writeJson(db: string, query: RunQuery, { rows, matched, ...rest }: FoundRows): string {
  const all = { db, query: printRunQuery(query), runs: rows, matched_runs: matched, ...rest };
  return `${formatJson(all, 2)}\n`;
}

function writeTable(view: InspectView, found: FoundRows): string {
  const { rows, matched, not_indexed, left_out_runs, searched } = found;
  let text = rows.length === 0 ? 'No such run.\n' : layOutRows(view, rows);
  if (rows.length > 0) {
    const cost = rows.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0);
    const all = matched > rows.length ? ` of ${formatCount(matched)}` : '';
    text += `\n${countOf(rows.length, 'run')}${all}, ${formatCost(cost)}.\n`;
  }
  if (matched > rows.length) text += '--limit N shows more, --limit 0 shows all.\n';
  if (left_out_runs > 0) text += `${countOf(left_out_runs, 'older run')}: show them with --run RUN.\n`;
  if (searched !== null && searched.not_searched > 0)
    text += `${countOf(searched.not_searched, 'exchange')} not searched for the text, because they are not in the full-text index.\n`;
  if (not_indexed > 0) text += `${describeNotIndexed(not_indexed)}\n`;
  return text;
}

function layOutRows(view: InspectView, rows: readonly CapturedRunRow[]): string {
  const { good, bad, strong, dim } = view.paint;
  const paints = { ok: good, failed: bad, error: bad, running: strong, unknown: dim };
  const cells = rows.map((run): Cell[] => [
    { text: makeHarmlessLine(run.run_id), paint: strong },
    { text: run.status, paint: paints[run.status] },
    { text: makeHarmlessLine(run.agent) || '-' },
    { text: nameAll(run.models) },
    { text: run.started_at.slice(0, 19).replace('T', ' ') },
    { text: formatMs(run.duration_ms) },
    { text: formatTokens(run.is_captured ? sumTokens(run) : (run.reported?.tokens ?? null)) },
    { text: run.cost_usd === null ? '-' : formatCost(run.cost_usd) },
    { text: `${run.errors}`, ...(run.errors > 0 ? { paint: bad } : {}) },
    { text: makeHarmlessLine(run.task ?? '') },
  ]);
  return layOutTable(
    [
      { title: 'RUN', align: 'left', min: 10, max: ID_CHARACTERS },
      { title: 'STATUS', align: 'left' },
      { title: 'AGENT', align: 'left', min: 8, max: ID_CHARACTERS, dispensable: 3 },
      { title: 'MODEL', align: 'left', min: 8, max: ID_CHARACTERS, dispensable: 2 },
      { title: 'STARTED', align: 'left', dispensable: 1 },
      { title: 'TOOK', align: 'right', dispensable: 5 },
      { title: 'TOKENS', align: 'right', dispensable: 6 },
      { title: 'COST', align: 'right' },
      { title: 'ERR', align: 'right' },
      { title: 'TASK', align: 'left', min: 12, max: TASK_COLUMNS },
    ],
    cells,
    view.width,
    view.paint,
  );
}

function sumTokens(run: CapturedRunRow): number | null {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = run;
  if (input_tokens === null && output_tokens === null) return null;
  return (input_tokens ?? 0) + (output_tokens ?? 0) + (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0);
}

function formatCost(usd: number): string {
  return `$${usd < 0.01 && usd > 0 ? usd.toPrecision(1) : usd.toFixed(2)}`;
}
