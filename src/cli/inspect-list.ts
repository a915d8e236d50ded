/** `understudy inspect` without more: the table of runs, or the same as JSON. Main thread of the command line. */

import { RunCollection, type RunFilter, type RunSummary } from '../analysis/inspect.ts';
import type { GoldenCode } from '../domain/golden.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { countOf } from '../std/count-of.ts';
import {
  type FindOutcomes,
  formatCount,
  formatMs,
  type InspectView,
  nameAll,
  nameKind,
} from './inspect-view.ts';
import { EXIT } from './io.ts';
import { type Cell, formatJson, layOutLines, makeHarmlessLine } from './terminal-text.ts';

/** The table goes out in pieces of this many characters. */
const OUTPUT_CHARS = 65_536;

/** Most columns of a name that a client made up; an id that the API takes fits. `--json` has all of it. */
const NAME_COLUMNS = ID_CHARACTERS;

/** Runs that a terminal shows without --limit. */
const TERMINAL_RUNS = 200;

const SHORT_REASONS: Record<GoldenCode, string> = {
  no_turn: 'no turn',
  aborted: 'aborted',
  truncated: 'cut off',
  undecodable: 'unreadable',
  seq_gap: 'seq gap',
  seq_missing: 'seq missing',
  seq_repeated: 'seq repeated',
  unlinked: 'conversation broken',
  failed_call: 'failed call',
  unfinished: 'unfinished',
  shape: 'shape',
  side_call: 'side call',
  outcome: 'outcome',
};

/**
 * Shows the runs that the flags choose.
 * @returns the exit status
 */
export async function showRuns(view: InspectView, db: string, findOutcomes: FindOutcomes): Promise<number> {
  const collection = new RunCollection();
  await collection.addAll(view.source, (id) =>
    view.progress.tell('looking through the exchanges', collection.size === 0 ? 0 : id, view.count),
  );
  const { since_ms, golden: onlyGolden, limit } = view.flags;
  const shownLimit = limit ?? (view.io.is_terminal && !view.flags.json ? TERMINAL_RUNS : undefined);
  const filter: RunFilter = {
    ...(since_ms === undefined ? {} : { since_ms }),
    ...(onlyGolden === undefined ? {} : { golden: onlyGolden }),
    ...(shownLimit === undefined ? {} : { limit: shownLimit }),
  };
  const outcomes = await findOutcomes(collection);
  const table = await collection.judge(view.source, outcomes, filter, (exchanges) =>
    view.progress.tell('judging the runs', exchanges, view.count),
  );
  view.progress.clear();
  const { runs, without_run: withoutRun, uncounted_exchanges: uncounted, left_out_runs: leftOut } = table;
  if (view.flags.json) {
    await view.io.out(`{\n  "db": ${formatJson(db, 0)},\n  "runs": [`);
    for (const [i, run] of runs.entries())
      await view.io.out(`${i === 0 ? '' : ','}\n    ${formatJson(run, 0)}`);
    const rest = { left_out_runs: leftOut, without_run: withoutRun, uncounted_exchanges: uncounted };
    await view.io.out(`\n  ],\n${formatJson(rest, 2).slice(2)}\n`);
    return EXIT.done;
  }
  if (runs.length > 0) {
    let text = '';
    for (const line of layOutRuns(view, runs)) {
      text += line;
      if (text.length < OUTPUT_CHARS) continue;
      await view.io.out(text);
      text = '';
    }
    await view.io.out(text);
  }
  const turns = runs.reduce((sum, run) => sum + run.turns, 0);
  const exchanges = runs.reduce((sum, run) => sum + run.exchanges, 0);
  const golden = runs.filter((run) => run.golden).length;
  let end = '';
  if (runs.length > 0) {
    end += `\n${countOf(runs.length, 'run')}, ${countOf(turns, 'turn')} in ${countOf(exchanges, 'exchange')}, ${formatCount(golden)} golden.\n`;
  }
  if (leftOut > 0)
    end += `${countOf(leftOut, 'earlier run')}: --limit N shows more, --limit 0 all, --since 2h the latest.\n`;
  if (withoutRun !== null) {
    end += `${countOf(withoutRun.exchanges, 'exchange')} without a run (${countOf(withoutRun.turns, 'turn')}).\n`;
  }
  if (uncounted > 0) end += `${countOf(uncounted, 'exchange')} of further runs: look at those with --run.\n`;
  if (end === '' && (since_ms !== undefined || onlyGolden !== undefined)) end = 'No such run.\n';
  if (end === '') end = 'The database holds no exchange yet.\n';
  await view.io.out(end);
  return EXIT.done;
}

function layOutRuns(view: InspectView, runs: RunSummary[]): Iterable<string> {
  const { good, bad, strong, dim } = view.paint;
  const hasKinds = runs.some(({ kind }) => kind !== null);
  const layOutRun = (run: RunSummary): Cell[] => {
    const failures = run.errors + run.aborted;
    const missing = run.gaps.reduce((sum, [from, to]) => sum + to - from + 1, 0);
    // On a narrow terminal the year and the seconds go first.
    const started = run.started_at
      .slice(view.width < 100 ? 5 : 0, view.width < 100 ? 16 : 19)
      .replace('T', ' ');
    return [
      { text: makeHarmlessLine(run.run_id ?? ''), paint: strong },
      ...(hasKinds ? [{ text: nameKind(run.kind), paint: dim }] : []),
      { text: run.turns === run.exchanges ? `${run.turns}` : `${run.turns}/${run.exchanges}` },
      { text: nameAll(run.models) },
      { text: started },
      { text: formatMs(Date.parse(run.finished_at) - Date.parse(run.started_at)) },
      { text: formatTokens(run.input_tokens) },
      { text: formatTokens(run.output_tokens) },
      failures === 0 ? { text: '0', paint: dim } : { text: `${failures}`, paint: bad },
      missing === 0 ? { text: '0', paint: dim } : { text: `${missing}`, paint: bad },
      run.golden ? { text: 'yes', paint: good } : { text: `no: ${shortReasons(run)}` },
    ];
  };
  const layOutAll = function* (): Generator<Cell[]> {
    for (const run of runs) yield layOutRun(run);
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

/** Why not golden, in a word each; `--run` has the sentences. */
function shortReasons(run: RunSummary): string {
  return [...new Set(run.reasons.map((reason) => SHORT_REASONS[reason.code]))].join(', ');
}

/** Tokens for a table: 9,876, 12.3k, 4.56M. */
function formatTokens(n: number | null): string {
  if (n === null || n < 10_000) return formatCount(n);
  return n < 999_950 ? `${(n / 1_000).toFixed(1)}k` : `${(n / 1_000_000).toFixed(2)}M`;
}
