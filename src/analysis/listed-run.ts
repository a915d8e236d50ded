/**
 * A run of the kept list, and the row that the kept index has of it (`storage/capture/run-index.ts`): what its records add up to,
 * and what its bodies said when they were read. Pure; capture reader, command line.
 *
 * Tokens are fresh ones (`providers/fresh-usage.ts`), not as each provider counts.
 */
import type { ChildRunName } from '../domain/captured-run.ts';
import type { ChildKind } from '../domain/client-run.ts';
import { type GoldenReason, GoldenTally, type SavedGoldenTally } from '../domain/golden.ts';
import { type RunTally, shareNames, startTally } from './inspect.ts';

/** Raised when a row holds something else, or a run is judged otherwise. */
const ROW_FORMAT = 1;

/** What rows of this version of the program hold; those of another one are not read. */
export function indexVersion(programVersion: string): string {
  return `${ROW_FORMAT} ${programVersion}`;
}

export interface ListedRun {
  tally: RunTally;
  /** 0: it has none yet. */
  first_turn_id: number;
  /** First words; null: not read yet. */
  task: string | null;
  /** As of the run's exchange `judged_id`; null: not judged yet. */
  verdict: { golden: boolean | null; reasons: GoldenReason[] } | null;
  judged_id: number;
  /** Dollars; null: no turn's price is known. */
  cost_usd: number | null;
  /** Turns whose price or tokens are not known. */
  unpriced_turns: number;
  /** Runs that are part of it, the first NAMED_CHILD_RUNS. */
  children: readonly ChildRunName[];
}

type Row = [
  format: number,
  run_id: string,
  session_id: string | null,
  parent_run_id: string | null,
  kind: ChildKind | null,
  names: [notes: string[], providers: string[], models: string[]],
  counts: [exchanges: number, turns: number, student_turns: number, errors: number, aborted: number],
  tokens: [
    input: number | null,
    output: number | null,
    cache_read: number | null,
    cache_write: number | null,
  ],
  seqs: [has_seq: boolean, first: number | null, last: number | null],
  range: [first_id: number, last_id: number, first_ms: number, last_ms: number, first_turn_id: number],
  golden: SavedGoldenTally,
  task: string | null,
  verdict: ListedRun['verdict'],
  judged_id: number,
  cost: [usd: number | null, unpriced_turns: number],
  children: readonly ChildRunName[],
];

const NO_CHILDREN: readonly ChildRunName[] = [];

export function startRun(runId: string, children: readonly ChildRunName[] = NO_CHILDREN): ListedRun {
  return {
    tally: startTally(runId),
    first_turn_id: 0,
    task: null,
    verdict: null,
    judged_id: 0,
    cost_usd: null,
    unpriced_turns: 0,
    children,
  };
}

export function writeListedRun(run: ListedRun): Buffer {
  const { tally } = run;
  const { summary } = tally;
  const row: Row = [
    ROW_FORMAT,
    summary.run_id!,
    summary.session_id,
    summary.parent_run_id,
    summary.kind,
    [summary.notes, summary.providers, summary.models],
    [summary.exchanges, summary.turns, summary.student_turns, summary.errors, summary.aborted],
    [summary.input_tokens, summary.output_tokens, summary.cache_read_tokens, summary.cache_write_tokens],
    [tally.has_seq, summary.first_seq, summary.last_seq],
    [tally.first_id, tally.last_id, tally.first_ms, tally.last_ms, run.first_turn_id],
    tally.golden.save(),
    run.task,
    run.verdict,
    run.judged_id,
    [run.cost_usd, run.unpriced_turns],
    run.children,
  ];
  return Buffer.from(JSON.stringify(row));
}

/** @throws Error for what {@link writeListedRun} has not written */
export function readListedRun(bytes: Buffer): ListedRun {
  const row = JSON.parse(bytes.toString()) as Row;
  if (row[0] !== ROW_FORMAT) throw new RangeError(`a row of the format ${row[0]}`);
  const [, runId, session_id, parent_run_id, kind, names, counts, tokens, seqs, range, golden] = row;
  const [, , , , , , , , , , , task, verdict, judged_id, [cost_usd, unpriced_turns], children] = row;
  const run = startRun(runId, children.length === 0 ? NO_CHILDREN : children);
  const { tally } = run;
  const { summary } = tally;
  [tally.first_id, tally.last_id, tally.first_ms, tally.last_ms, run.first_turn_id] = range;
  [tally.has_seq, summary.first_seq, summary.last_seq] = seqs;
  tally.golden = GoldenTally.restore(golden);
  [summary.exchanges, summary.turns, summary.student_turns, summary.errors, summary.aborted] = counts;
  [summary.input_tokens, summary.output_tokens, summary.cache_read_tokens, summary.cache_write_tokens] =
    tokens;
  [summary.notes, summary.providers, summary.models] = names.map(shareNames) as Row[5];
  Object.assign(summary, { session_id, parent_run_id, kind });
  return Object.assign(run, { task, verdict, judged_id, cost_usd, unpriced_turns });
}
