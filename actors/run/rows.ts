/** The table rows that a run's events write for other readers. Pure; server threads. */
import { type RunEvent, type RunState, type StepEvent, toTimestamp, totalsOf } from '../../src/domain/run.ts';
import { RUN_LISTS, type RunListRow, runListKeys } from '../../src/domain/run-list.ts';
import {
  RUN_DELETIONS,
  RUN_GATHERED_STEPS,
  RUN_OUTCOMES,
  RUN_STARTS,
  RUN_STEP_KEYS,
  RUN_STEPS,
  RUN_TOTALS,
  RUNS,
  type RunRow,
  type RunStartRow,
  type RunStepRow,
  runKey,
  runStepKey,
} from '../../src/domain/run-rows.ts';
import {
  anonymizeSummary,
  RUNS_BY_EXPERIMENT,
  type RunSummary,
  runSummaryKey,
} from '../../src/domain/run-summary.ts';
import { USAGE, type UsageCounts, usageKey } from '../../src/domain/usage.ts';
import type { RowWrite } from '../../src/runtime/protocol.ts';
import type { GatheredSteps } from './adapter.ts';

/** Returns the rows that an event writes, unless they need more than the state after the event. @param state after the event */
export function projectRun(state: RunState, event: RunEvent): readonly RowWrite[] {
  switch (event.type) {
    case 'start': {
      const { org_id, run_id, project_id } = state.facts!;
      const { task, metadata } = event.start;
      const start: RunStartRow = { project_id, task, metadata, started_at: toTimestamp(event.at_ms) };
      return [
        { op: 'put', table: RUN_STARTS, row: [org_id, run_id], value: start },
        ...runListKeys(state.facts!, { started_at_ms: event.at_ms, run_id }).map(
          (row): RowWrite => ({
            op: 'put',
            table: RUN_LISTS,
            row,
            value: { project_id } satisfies RunListRow,
          }),
        ),
        ...putSummaries(state),
        addUsage(state, event.at_ms, { runs: 1 }),
      ];
    }
    case 'finish': {
      const { org_id, run_id } = state.facts!;
      return [
        ...putSummaries(state),
        { op: 'put', table: RUN_OUTCOMES, row: [run_id, org_id], value: event.outcome },
      ];
    }
    case 'named':
      return putSummaries(state);
    case 'step': // `stepRows`, which need the answer to the step
    case 'told':
    case 'reported': // `stepKeyRow`
    case 'gathered': // `gatheredRows`
    case 'deleting': // `deletionRows`, which need the state before the event
    case 'swept':
    case 'deleted':
      return [];
  }
}

/** Makes the rows that a step writes. */
export function stepRows(
  state: RunState,
  { at_ms, step_index, tokens }: StepEvent,
  value: RunStepRow,
): readonly RowWrite[] {
  return [
    { op: 'put', table: RUN_STEPS, row: runStepKey(state.facts!, step_index), value },
    addUsage(state, at_ms, { steps: 1, tokens }),
  ];
}

/** Makes the row with the totals of a running run, which readers on other boxes need. */
export function totalsRow(state: RunState): RowWrite {
  const { org_id, run_id } = state.facts!;
  return { op: 'put', table: RUN_TOTALS, row: [org_id, run_id], value: totalsOf(state) };
}

/** Removes the row with the totals. After the finish, the run's own row has them. */
export function removeTotals({ facts }: RunState): RowWrite {
  return { op: 'remove', table: RUN_TOTALS, row: [facts!.org_id, facts!.run_id] };
}

/** Makes the rows that move steps of a finished run into one row. */
export function gatheredRows({ facts }: RunState, { first, last, value }: GatheredSteps): RowWrite[] {
  const row = runStepKey(facts!, last);
  return [
    { op: 'put', table: RUN_GATHERED_STEPS, row, value },
    { op: 'clear', table: RUN_STEPS, row: runStepKey(facts!, first), end: runStepKey(facts!, last + 1) },
  ];
}

/** Makes the row of a report's key, or of counts of reports. @param value the step's index, or the counts */
export function stepKeyRow({ facts }: RunState, key: string, value: number | readonly number[]): RowWrite {
  return { op: 'put', table: RUN_STEP_KEYS, row: [facts!.org_id, facts!.run_id, key], value };
}

/**
 * Makes the rows that delete a run, except those of the run's steps. Usage counts and the run's figures in its
 * experiment are kept.
 * @param state before the deletion
 * @param mark identifies the deletion, for {@link anonymizeSummary}
 */
export function deletionRows(state: RunState, mark: string): readonly RowWrite[] {
  const facts = state.facts!;
  const { org_id, run_id, experiment_id } = facts;
  const writes: RowWrite[] = [
    { op: 'remove', table: RUN_STARTS, row: [org_id, run_id] },
    { op: 'remove', table: RUNS, row: runKey(facts) },
    { op: 'remove', table: RUN_OUTCOMES, row: [run_id, org_id] },
    ...runListKeys(facts, { started_at_ms: state.started_at_ms, run_id }).map(
      (row): RowWrite => ({ op: 'remove', table: RUN_LISTS, row }),
    ),
  ];
  if (experiment_id === '') return writes;
  const summary = summarize(state);
  const kept = anonymizeSummary(summary, mark);
  writes.push({ op: 'remove', table: RUNS_BY_EXPERIMENT, row: runSummaryKey(summary) });
  writes.push({ op: 'put', table: RUNS_BY_EXPERIMENT, row: runSummaryKey(kept), value: kept });
  return writes;
}

/** Removes a run's steps, gathered steps and step keys: up to `limit` rows of each table. */
export function sweepRows({ facts }: RunState, limit: number): RowWrite[] {
  const row = [facts!.org_id, facts!.run_id];
  return [RUN_STEPS, RUN_GATHERED_STEPS, RUN_STEP_KEYS].map(
    (table): RowWrite => ({ op: 'trim', table, row, limit }),
  );
}

/** Marks a deletion that takes several transactions, so that the next start can resume it. */
export function deletionMark({ facts }: RunState, op: 'put' | 'remove'): RowWrite {
  const row = [facts!.org_id, facts!.run_id];
  return op === 'put' ? { op, table: RUN_DELETIONS, row, value: 1 } : { op, table: RUN_DELETIONS, row };
}

function addUsage(state: RunState, atMs: number, counts: Partial<UsageCounts>): RowWrite {
  const { org_id, project_id } = state.facts!;
  return { op: 'add', table: USAGE, row: usageKey(org_id, atMs, project_id), counts };
}

function putSummaries(state: RunState): RowWrite[] {
  const facts = state.facts!;
  const row: RunRow = { ...facts, ...totalsOf(state), ...timesOf(state) };
  const writes: RowWrite[] = [{ op: 'put', table: RUNS, row: runKey(facts), value: row }];
  if (facts.experiment_id === '') return writes;
  const summary = summarize(state);
  writes.push({ op: 'put', table: RUNS_BY_EXPERIMENT, row: runSummaryKey(summary), value: summary });
  return writes;
}

function timesOf({ started_at_ms, finish }: RunState): Pick<RunRow, 'status' | 'started_at' | 'finished_at'> {
  return {
    status: finish === null ? 'running' : 'finished',
    started_at: toTimestamp(started_at_ms),
    finished_at: finish === null ? null : toTimestamp(finish.at_ms),
  };
}

function summarize(state: RunState): RunSummary {
  const { run_id, org_id, project_id, experiment_id, arm, assignment_unit, svc_version } = state.facts!;
  const { outcome, steps, tokens, duration_ms } = totalsOf(state);
  const { status, started_at, finished_at } = timesOf(state);
  return {
    run_id,
    org_id,
    project_id,
    experiment_id,
    arm,
    assignment_unit,
    svc_version,
    status,
    outcome,
    steps,
    tokens,
    duration_ms,
    started_at,
    finished_at,
  };
}
