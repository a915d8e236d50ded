/**
 * A run of the list, and its row in the stored index (`storage/capture/run-index.ts`): sums over the run's records, and
 * values from its bodies, once they were read. Pure; capture reader, command line.
 *
 * Input tokens exclude cached tokens (`providers/fresh-usage.ts`), whatever the provider counts.
 */
import { createHash } from 'node:crypto';
import type { ChildRunName } from '../domain/captured-run.ts';
import type { ChildKind } from '../domain/child-kind.ts';
import { type GoldenReason, GoldenTally, type SavedGoldenTally } from '../domain/golden.ts';
import type { Prices } from '../domain/price.ts';
import type { PlacedExchange } from '../domain/run-order.ts';
import { GOLDEN_WIRES } from '../providers/golden-wires.ts';
import { type RunTally, shareName, shareNames, startTally } from './inspect.ts';

/**
 * Version of the rows' format. Raise it when the content of rows or of the figures stored with them changes, or when
 * runs are judged differently.
 */
const ROW_FORMAT = 13;

/** Identifies the format of rows and the program's version; rows of another format or version are not read. */
export function indexVersion(programVersion: string): string {
  return `${ROW_FORMAT} ${programVersion}`;
}

/** Identifies the prices behind stored costs. Costs at other prices are not read. */
export function nameOfPrices(prices: Prices): string {
  return createHash('sha256').update(JSON.stringify(prices)).digest('hex').slice(0, 16);
}

export interface ListedRun {
  /**
   * Sums of the run's exchanges, added in the order of storing. If `is_in_order` is false, they must be added again in
   * the order of the run.
   */
  tally: RunTally;
  /** The exchange that was added last; null before the first. */
  last: PlacedExchange | null;
  /**
   * false if an exchange was stored after a later exchange. The tally must then be made again before the run is judged.
   */
  is_in_order: boolean;
  /** Id of the run's first turn; 0: no turn yet. */
  first_turn_id: number;
  /** The user's first words; '': none, or they cannot be read; null: not read yet. */
  task: string | null;
  /**
   * Verdict on the captured copy, up to the run's exchange `judged_id`; null if not judged yet. `golden` is null if the
   * run could not be judged. `is_whole`: the verdict is not from the records alone.
   */
  verdict: { golden: boolean | null; reasons: GoldenReason[]; is_whole: boolean } | null;
  judged_id: number;
  /** Dollars; null if no turn has a known price. */
  cost_usd: number | null;
  /** Turns whose price or tokens are unknown. */
  unpriced_turns: number;
  /** Turns whose price is a guess, or whose tokens are estimated. */
  estimated_turns: number;
  /** The run's first child runs, at most NAMED_CHILD_RUNS. */
  children: readonly ChildRunName[];
  /** The run's slot in the table of all runs (run-table.ts); -1 without one. */
  slot: number;
}

type Row = [
  format: number,
  run_id: string,
  session_id: string | null,
  parent_run_id: string | null,
  kind: ChildKind | null,
  names: [notes: string[], providers: string[], models: string[], tools: string[]],
  counts: [exchanges: number, turns: number, student_turns: number, errors: number, aborted: number],
  tokens: [
    input: number | null,
    output: number | null,
    cache_read: number | null,
    cache_write: number | null,
  ],
  seqs: [has_seq: boolean, first: number | null, last: number | null],
  range: [
    first_id: number,
    last_id: number,
    first_ms: number,
    last_ms: number,
    first_turn_id: number,
    last_failed_ms: number | null,
  ],
  golden: SavedGoldenTally,
  task: string | null,
  verdict: ListedRun['verdict'],
  judged_id: number,
  cost: [usd: number | null, unpriced_turns: number, estimated_turns: number],
  children: readonly ChildRunName[],
  order: [last: PlacedExchange | null, is_in_order: boolean],
  sender: [client: string | null, trace_id: string | null, tags: string[], keys: string[]],
];

const NO_CHILDREN: readonly ChildRunName[] = [];

export function startRun(runId: string, children: readonly ChildRunName[] = NO_CHILDREN): ListedRun {
  return {
    tally: startTally(runId),
    last: null,
    is_in_order: true,
    first_turn_id: 0,
    task: null,
    verdict: null,
    judged_id: 0,
    cost_usd: null,
    unpriced_turns: 0,
    estimated_turns: 0,
    children,
    slot: -1,
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
    [summary.notes, summary.providers, summary.models, summary.tools],
    [summary.exchanges, summary.turns, summary.student_turns, summary.errors, summary.aborted],
    [summary.input_tokens, summary.output_tokens, summary.cache_read_tokens, summary.cache_write_tokens],
    [tally.has_seq, summary.first_seq, summary.last_seq],
    [tally.first_id, tally.last_id, tally.first_ms, tally.last_ms, run.first_turn_id, tally.last_failed_ms],
    tally.golden.save(),
    run.task,
    run.verdict,
    run.judged_id,
    [run.cost_usd, run.unpriced_turns, run.estimated_turns],
    run.children,
    [run.last, run.is_in_order],
    [summary.client, summary.trace_id, summary.request_tags, summary.keys],
  ];
  return Buffer.from(JSON.stringify(row));
}

/**
 * Restores a run from its row.
 * @param bytes a row made by {@link writeListedRun}
 * @throws Error for bytes that are not JSON, and for a row of another format
 */
export function readListedRun(bytes: Buffer): ListedRun {
  const row = JSON.parse(bytes.toString()) as Row;
  if (row[0] !== ROW_FORMAT) throw new RangeError(`a row of the format ${row[0]}`);
  const [, runId, session_id, parent_run_id, kind, names, counts, tokens, seqs, range, golden] = row;
  const [
    ,
    ,
    ,
    ,
    ,
    ,
    ,
    ,
    ,
    ,
    ,
    task,
    verdict,
    judged_id,
    [cost_usd, unpriced_turns, estimated_turns],
    children,
    order,
    [client, trace_id, tags, keys],
  ] = row;
  const run = startRun(runId, children.length === 0 ? NO_CHILDREN : children);
  const { tally } = run;
  const { summary } = tally;
  [tally.first_id, tally.last_id, tally.first_ms, tally.last_ms, run.first_turn_id, tally.last_failed_ms] =
    range;
  [tally.has_seq, summary.first_seq, summary.last_seq] = seqs;
  tally.golden = GoldenTally.restore(golden, GOLDEN_WIRES);
  [summary.exchanges, summary.turns, summary.student_turns, summary.errors, summary.aborted] = counts;
  [summary.input_tokens, summary.output_tokens, summary.cache_read_tokens, summary.cache_write_tokens] =
    tokens;
  [summary.notes, summary.providers, summary.models, summary.tools] = names.map(shareNames) as Row[5];
  Object.assign(summary, { session_id, parent_run_id, kind, trace_id });
  summary.client = client === null ? null : shareName(client);
  [summary.request_tags, summary.keys] = [shareNames(tags), shareNames(keys)];
  const [last, is_in_order] = order;
  return Object.assign(run, {
    task,
    verdict,
    judged_id,
    cost_usd,
    unpriced_turns,
    estimated_turns,
    last,
    is_in_order,
  });
}
