/** The rows that a run's events bring: what others find of it in tables. Pure; server threads. */
import { type RunEvent, type RunState, type StepEvent, toTimestamp, totalsOf } from '../../src/domain/run.ts';
import { RUN_LISTS, type RunListRow, runListKeys } from '../../src/domain/run-list.ts';
import {
  RUN_DELETIONS,
  RUN_STARTS,
  RUN_STEP_KEYS,
  RUN_STEPS,
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

/** @param state after the event */
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
    case 'finish':
      return putSummaries(state);
    case 'step': // `stepRows`, which need its answer
    case 'told':
    case 'deleting': // `deletionRows`, which need the state before
    case 'swept':
    case 'deleted':
      return [];
  }
}

/** The rows that a step brings. */
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

/** The row by which a step is found again that has a key. */
export function stepKeyRow({ facts }: RunState, key: string, stepIndex: number): RowWrite {
  return { op: 'put', table: RUN_STEP_KEYS, row: [facts!.org_id, facts!.run_id, key], value: stepIndex };
}

/**
 * What goes when a run is deleted, but for its steps. What was counted stays: usage, and in its experiment its numbers.
 * @param state before the deletion
 * @param mark of the deletion, for {@link anonymizeSummary}
 */
export function deletionRows(state: RunState, mark: string): readonly RowWrite[] {
  const facts = state.facts!;
  const { org_id, run_id, experiment_id } = facts;
  const writes: RowWrite[] = [
    { op: 'remove', table: RUN_STARTS, row: [org_id, run_id] },
    { op: 'remove', table: RUNS, row: runKey(facts) },
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

/** Removes so many of a run's steps, and of their keys. */
export function sweepRows({ facts }: RunState, limit: number): RowWrite[] {
  const row = [facts!.org_id, facts!.run_id];
  return [RUN_STEPS, RUN_STEP_KEYS].map((table): RowWrite => ({ op: 'trim', table, row, limit }));
}

/** Of a deletion that takes a while: it is found by the next start. */
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
