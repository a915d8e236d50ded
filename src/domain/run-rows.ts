/**
 * The rows about runs for other readers, which the run actor writes to `runs.mdb` in the transaction of the event.
 * Rows by experiment are in run-summary.ts. Pure; any thread.
 */
import type { Intervention } from './monitors/intervention.ts';
import type { StepTextFields } from './monitors/masked-step.ts';
import type { PackedScores, RunFacts, RunTotals } from './run.ts';

/** One row per run, written at its start and at its finish; key {@link runKey}. */
export const RUNS = 'runs';
/** The long parts of a start; key `[org_id, run_id]`, which also finds a run without its project. */
export const RUN_STARTS = 'run_starts';
/** One row per step; key {@link runStepKey}. Steps of a finished run are moved to {@link RUN_GATHERED_STEPS}. */
export const RUN_STEPS = 'run_steps';
/**
 * Steps of finished runs, many in each row (gathered-steps.ts); key {@link runStepKey} of the last step in the row.
 * These rows have their own table. In RUN_STEPS, each of them would remain alone in a page after the rows of single
 * steps were removed.
 */
export const RUN_GATHERED_STEPS = 'run_gathered_steps';
/**
 * Reports of steps by telemetry; key `[org_id, run_id, key]`. The value is the step's index, or the last step's index
 * for a call that was already known. The same table has the counts of reports (reported-calls.ts).
 */
export const RUN_STEP_KEYS = 'run_step_keys';
/**
 * Totals of a running run as of its last step; key `[org_id, run_id]`, value {@link RunTotals}. Written only by boxes
 * that share their runs; elsewhere readers ask the actor.
 */
export const RUN_TOTALS = 'run_totals';
/**
 * Outcomes of finished runs by id alone, for captured runs with the same id; key `[run_id, org_id]`, value the
 * outcome.
 */
export const RUN_OUTCOMES = 'run_outcomes';
/** Deleted runs whose steps are not all removed yet; key `[org_id, run_id]`. */
export const RUN_DELETIONS = 'run_deletions';

/** A value of {@link RUN_STEP_KEYS}: a step's index, or counts of reports. */
export type RunStepKeyRow = number | readonly number[];

export interface RunRow extends RunFacts, RunTotals {
  status: 'running' | 'finished';
  /** RFC 3339. */
  started_at: string;
  /** RFC 3339; null while running. */
  finished_at: string | null;
}

export interface RunStartRow {
  project_id: string;
  /** Secrets masked. */
  task: string;
  /** The free-form object as JSON, secrets masked; '' for none. */
  metadata: string;
  started_at: string;
}

export interface RunStepRow {
  /**
   * The first answer, which a repeated step gets again byte for byte: as numbers (`readAnswer`), or in full as stored
   * by versions up to 0.1.
   */
  answer: string | PackedScores;
  /** RFC 3339. */
  at: string;
  is_error: boolean;
  tokens: number;
  /** Cut, secrets masked. */
  copy: StepTextFields;
  /** The intervention that began or escalated with this step; absent without one. */
  intervention?: Intervention;
}

export function runKey({
  org_id,
  project_id,
  run_id,
}: Pick<RunFacts, 'org_id' | 'project_id' | 'run_id'>): string[] {
  return [org_id, project_id, run_id];
}

export function runStepKey(
  { org_id, run_id }: Pick<RunFacts, 'org_id' | 'run_id'>,
  stepIndex: number,
): [org_id: string, run_id: string, step_index: number] {
  return [org_id, run_id, stepIndex];
}
