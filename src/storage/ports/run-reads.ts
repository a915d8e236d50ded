/**
 * Reads steps, reports, totals and counters of runs and of usage: rows that few requests read. On a box that shares its
 * runs, these rows are in the shared database and not in the box's view, so every method is asynchronous.
 * Implementation: ../table-run-reads.ts. Types; server threads.
 */
import type { StoredStep } from '../../domain/gathered-steps.ts';
import type { RunTotals } from '../../domain/run.ts';
import type { RunStepKeyRow } from '../../domain/run-rows.ts';
import type { CountedDay, UsageCounts } from '../../domain/usage.ts';

/** A run by its name. A name belongs to one run of an organization. */
export interface RunName {
  org_id: string;
  run_id: string;
}

/** Which steps of a run. */
export interface StepPage {
  /** Only steps with a greater index; null: all. */
  after: number | null;
  /** ≥ 1 */
  limit: number;
}

/** Every method rejects with a store error if the rows cannot be read now. */
export interface RunReads {
  /** Lists the steps of a page, in order, of a running or finished run. */
  listSteps(run: RunName, page: StepPage): Promise<StoredStep[]>;
  /**
   * Finds one step; undefined if the run has no such step.
   * @param is_finished whether the run is finished; the steps of a finished run may share rows
   */
  findStep(run: RunName, step_index: number, is_finished: boolean): Promise<StoredStep | undefined>;
  /** Finds the step with the highest index of a run that is not finished; undefined if the run has no steps. */
  findLastStep(run: RunName): Promise<StoredStep | undefined>;
  /** Finds the reports with these keys that the run has. */
  findReports(run: RunName, keys: readonly string[]): Promise<[key: string, value: RunStepKeyRow][]>;
  /**
   * The totals of running runs up to their last step, in the order of `runs`; null for a run without steps. If the
   * property itself is null, only the runs' actors have the totals.
   */
  readonly listTotals: ((runs: readonly RunName[]) => Promise<(RunTotals | null)[]>) | null;
  /** Lists the counters of an organization's runs and usage meters from a day on, in the order of the days. */
  listCounts(org_id: string, first_day: string): Promise<CountedDay[]>;
  /** Lists the counters of one project on these days. Days without counts may be missing. */
  listProjectCounts(org_id: string, project_id: string, days: readonly string[]): Promise<CountedDay[]>;
  /** Counts all interventions since the beginning, by kind. @param project_id null: of all projects */
  sumInterventions(org_id: string, project_id: string | null): Promise<Partial<UsageCounts>>;
  close(): Promise<void>;
}
