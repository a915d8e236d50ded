/**
 * `understudy inspect` without a selection: the table of runs, or the same as JSON. Main thread of the command line.
 */

import {
  type KeptVerdict,
  type RunFilter,
  RunList,
  type RunListEnd,
  type RunSummary,
} from '../captures/inspect.ts';
import type { GoldenCode } from '../domain/golden.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { countOf } from '../std/count-of.ts';
import {
  type FindWords,
  formatCount,
  formatMs,
  type InspectView,
  nameAll,
  nameKind,
} from './inspect-view.ts';
import { EXIT } from './io.ts';
import { type Cell, formatJson, layOutLines, makeHarmlessLine } from './terminal-text.ts';

/** The table is written in pieces of this many characters. */
const OUTPUT_CHARS = 65_536;

/** Maximum number of columns of a name that a client chose. An id that the API accepts fits. `--json` has whole names. */
const NAME_COLUMNS = ID_CHARACTERS;

/** Maximum number of runs that a terminal shows without --limit. */
export const TERMINAL_RUNS = 200;

const SHORT_REASONS: Record<GoldenCode, string> = {
  no_turn: 'no turn',
  aborted: 'aborted',
  truncated: 'cut off',
  undecodable: 'unreadable',
  not_indexed: 'not indexed',
  seq_gap: 'seq gap',
  seq_missing: 'seq missing',
  seq_repeated: 'seq repeated',
  unlinked: 'conversation broken',
  failed_call: 'failed call',
  unfinished: 'unfinished',
  shape: 'shape',
  side_call: 'side call',
  monitor_fired: 'monitor fired',
  reading_differs: 'reading differs',
  outcome: 'outcome',
  marked_bad: 'marked bad',
};

/**
 * Shows the selected runs.
 * @param kept verdicts that the service has stored
 * @returns the exit status
 */
export async function showRuns(
  view: InspectView,
  db: string,
  findWords: FindWords,
  kept?: KeptVerdict,
): Promise<number> {
  const list = new RunList(kept);
  await list.addAll(view.source, (id) =>
    view.progress.tell('looking through the exchanges', list.size === 0 ? 0 : id, view.count),
  );
  const { since_ms, golden: onlyGolden, limit } = view.flags;
  const shownLimit = limit ?? (view.io.is_terminal && !view.flags.json ? TERMINAL_RUNS : undefined);
  const filter: RunFilter = {
    ...(since_ms === undefined ? {} : { since_ms }),
    ...(onlyGolden === undefined ? {} : { golden: onlyGolden }),
    ...(shownLimit === undefined ? {} : { limit: shownLimit }),
  };
  const words = await findWords(list);
  const judged = list.judge(view.source, words, filter, (runs) => {
    // Progress is not shown, because it would become part of the JSON document.
    if (!view.flags.json) view.progress.tell(`judging the runs: ${formatCount(runs)}`, 0, 0);
  });
  return view.flags.json ? writeJson(view, db, judged) : writeTable(view, judged);
}

type JudgedRuns = AsyncGenerator<RunSummary, RunListEnd>;

async function writeJson(view: InspectView, db: string, judged: JudgedRuns): Promise<number> {
  view.progress.clear();
  await view.io.out(`{\n  "db": ${formatJson(db, 0)},\n  "runs": [`);
  let separator = '';
  for (;;) {
    const next = await judged.next();
    if (next.done === true) {
      const { left_out_runs, without_run, uncounted_exchanges, not_indexed } = next.value;
      const rest = { left_out_runs, without_run, uncounted_exchanges, not_indexed };
      await view.io.out(`\n  ],\n${formatJson(rest, 2).slice(2)}\n`);
      return EXIT.done;
    }
    await view.io.out(`${separator}\n    ${formatJson(next.value, 0)}`);
    separator = ',';
  }
}

async function writeTable(view: InspectView, judged: JudgedRuns): Promise<number> {
  const { since_ms, golden: onlyGolden } = view.flags;
  // Widths are known only after the last run, so until then a line is kept as text.
  const rows: string[] = [];
  const sums = { turns: 0, exchanges: 0, golden: 0, kinds: 0 };
  let end: RunListEnd;
  for (;;) {
    const next = await judged.next();
    if (next.done === true) {
      end = next.value;
      break;
    }
    const run = next.value;
    rows.push(formatJson(makeRow(view, run), 0));
    sums.turns += run.turns;
    sums.exchanges += run.exchanges;
    sums.golden += run.golden ? 1 : 0;
    sums.kinds += run.kind === null ? 0 : 1;
  }
  view.progress.clear();
  let text = '';
  for (const line of rows.length === 0 ? [] : layOutRuns(view, rows, sums.kinds > 0)) {
    text += line;
    if (text.length < OUTPUT_CHARS) continue;
    await view.io.out(text);
    text = '';
  }
  const { left_out_runs: leftOut, without_run: withoutRun, uncounted_exchanges: uncounted } = end;
  if (rows.length > 0) {
    text += `\n${countOf(rows.length, 'run')}, ${countOf(sums.turns, 'turn')} in ${countOf(sums.exchanges, 'exchange')}, ${formatCount(sums.golden)} golden.\n`;
  }
  const isSearched = onlyGolden !== undefined && leftOut > 0;
  if (leftOut > 0)
    text += `${countOf(leftOut, 'earlier run')}${isSearched ? ', not examined' : ''}: --limit N shows more, --limit 0 shows all, --since 2h shows those of the last two hours.\n`;
  if (withoutRun !== null) {
    text += `${countOf(withoutRun.exchanges, 'exchange')} without a run (${countOf(withoutRun.turns, 'turn')}).\n`;
  }
  if (uncounted > 0) text += `${countOf(uncounted, 'exchange')} of older runs: show them with --run RUN.\n`;
  if (end.not_indexed > 0) text += `${describeNotIndexed(end.not_indexed)}\n`;
  if (text === '' && (since_ms !== undefined || onlyGolden !== undefined)) text = 'No such run.\n';
  if (text === '') text = 'The database has no exchange yet.\n';
  await view.io.out(text);
  return EXIT.done;
}

/**
 * A note about exchanges that a command leaves out because they are not indexed. Only the writer of the captures
 * indexes.
 */
export function describeNotIndexed(exchanges: number): string {
  return `${countOf(exchanges, 'exchange')} not indexed yet, and therefore in no run. The service indexes exchanges while it runs, or at its next start.`;
}

/** A line about stored exchanges that figures do not count; empty for 0 exchanges. */
export function sayNotCounted(exchanges: number): string {
  if (exchanges === 0) return '';
  return `${countOf(exchanges, 'exchange')} not indexed yet, and therefore not counted. The service indexes exchanges while it runs, or at its next start.\n`;
}

/** A line of the table, before it has its widths and colours. */
interface RunLine {
  /** The texts in the order of the columns. */
  texts: string[];
  has_failures: boolean;
  has_gaps: boolean;
  golden: boolean;
}

function makeRow(view: InspectView, run: RunSummary): RunLine {
  const failures = run.errors;
  const missing = run.gaps.reduce((sum, [from, to]) => sum + to - from + 1, 0);
  // The year and the seconds are left out on a narrow terminal.
  const started = run.started_at
    .slice(view.width < 100 ? 5 : 0, view.width < 100 ? 16 : 19)
    .replace('T', ' ');
  return {
    texts: [
      makeHarmlessLine(run.run_id ?? ''),
      nameKind(run.kind),
      run.turns === run.exchanges ? `${run.turns}` : `${run.turns}/${run.exchanges}`,
      nameAll(run.models),
      started,
      formatMs(Date.parse(run.finished_at) - Date.parse(run.started_at)),
      formatTokens(run.input_tokens),
      formatTokens(run.output_tokens),
      `${failures}`,
      `${missing}`,
      run.golden ? 'yes' : `no: ${shortReasons(run)}`,
    ],
    has_failures: failures > 0,
    has_gaps: missing > 0,
    golden: run.golden,
  };
}

function layOutRuns(view: InspectView, rows: readonly string[], hasKinds: boolean): Iterable<string> {
  const { good, bad, strong, dim } = view.paint;
  const layOutRun = (line: RunLine): Cell[] => {
    const cells: Cell[] = line.texts.map((text) => ({ text }));
    const paint = (at: number, how: Cell['paint']): void => {
      if (how !== undefined) cells[at]!.paint = how;
    };
    paint(0, strong);
    paint(1, dim);
    paint(8, line.has_failures ? bad : dim);
    paint(9, line.has_gaps ? bad : dim);
    if (line.golden) paint(10, good);
    return hasKinds ? cells : cells.toSpliced(1, 1);
  };
  const layOutAll = function* (): Generator<Cell[]> {
    for (const row of rows) yield layOutRun(JSON.parse(row) as RunLine);
  };
  return layOutLines(
    [
      { title: 'RUN', align: 'left', min: 10, max: NAME_COLUMNS },
      ...(hasKinds ? [{ title: 'KIND', align: 'left' as const, dispensable: 6 }] : []),
      { title: 'TURNS', align: 'right' },
      { title: 'MODEL', align: 'left', min: 8, max: NAME_COLUMNS, dispensable: 3 },
      { title: 'STARTED', align: 'left', dispensable: 1 },
      { title: 'TOOK', align: 'right', dispensable: 5 },
      { title: 'IN', align: 'right', dispensable: 2 },
      { title: 'OUT', align: 'right', dispensable: 2 },
      { title: 'ERR', align: 'right' },
      { title: 'GAPS', align: 'right', dispensable: 4 },
      { title: 'GOLDEN', align: 'left', min: 12 },
    ],
    layOutAll,
    view.width,
    view.paint,
  );
}

/** Why the run is not golden, one word per reason. `--run` shows whole sentences. */
function shortReasons(run: RunSummary): string {
  return [...new Set(run.reasons.map((reason) => SHORT_REASONS[reason.code]))].join(', ');
}

/** Tokens for a table: 9,876, 12.3k, 4.56M. */
export function formatTokens(n: number | null): string {
  if (n === null || n < 10_000) return formatCount(n);
  return n < 999_950 ? `${(n / 1_000).toFixed(1)}k` : `${(n / 1_000_000).toFixed(2)}M`;
}
