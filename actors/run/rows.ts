/** The rows that a run's events bring: what others find of it in tables. Pure; server threads. */
import { type RunEvent, type RunState, type StepEvent, toTimestamp, totalsOf } from '../../src/domain/run.ts';
import { RUN_LISTS, type RunListRow, runListKeys } from '../../src/domain/run-list.ts';
import {
  RUN_STARTS,
  RUN_STEPS,
  RUNS,
  type RunRow,
  type RunStartRow,
  type RunStepRow,
  runKey,
  runStepKey,
} from '../../src/domain/run-rows.ts';
import { RUNS_BY_EXPERIMENT, type RunSummary, runSummaryKey } from '../../src/domain/run-summary.ts';
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

function addUsage(state: RunState, atMs: number, counts: Partial<UsageCounts>): RowWrite {
  const { org_id, project_id } = state.facts!;
  return { op: 'add', table: USAGE, row: usageKey(org_id, atMs, project_id), counts };
}

function putSummaries(state: RunState): RowWrite[] {
  const facts = state.facts!;
  const totals = totalsOf(state);
  const { finish } = state;
  const status = finish === null ? 'running' : 'finished';
  const started_at = toTimestamp(state.started_at_ms);
  const finished_at = finish === null ? null : toTimestamp(finish.at_ms);
  const row: RunRow = { ...facts, ...totals, status, started_at, finished_at };
  const writes: RowWrite[] = [{ op: 'put', table: RUNS, row: runKey(facts), value: row }];
  if (facts.experiment_id === '') return writes;
  const { run_id, org_id, project_id, experiment_id, arm, assignment_unit, svc_version } = facts;
  const { outcome, steps, tokens, duration_ms } = totals;
  const summary: RunSummary = {
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
  writes.push({ op: 'put', table: RUNS_BY_EXPERIMENT, row: runSummaryKey(summary), value: summary });
  return writes;
}
