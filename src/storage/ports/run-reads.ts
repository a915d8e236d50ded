/**
 * What the product reads of runs and of usage besides their lists: rows that only a run or a usage meter writes, and that
 * few requests read. On a box that shares its runs they are in the database and not in the box's view, so every method
 * waits. Implementation: ../table-run-reads.ts. Types; server threads.
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

/** Every method rejects with an Error of the store if it cannot be read now. */
export interface RunReads {
  /** The first steps of a page, in order, whether the run goes on or is finished. */
  listSteps(run: RunName, page: StepPage): Promise<StoredStep[]>;
  /**
   * One step.
   * @param is_finished whether the run is finished, so that its steps may be in rows with others
   */
  findStep(run: RunName, step_index: number, is_finished: boolean): Promise<StoredStep | undefined>;
  /** The step with the highest index of a run that is not finished; undefined without a step. */
  findLastStep(run: RunName): Promise<StoredStep | undefined>;
  /** The reports with these keys that the run has. */
  findReports(run: RunName, keys: readonly string[]): Promise<[key: string, value: RunStepKeyRow][]>;
  /**
   * The totals of running runs as of their last step, in the order of `runs`: null for a run without a step. If the
   * property is null, only their actors know them.
   */
  readonly listTotals: ((runs: readonly RunName[]) => Promise<(RunTotals | null)[]>) | null;
  /** What runs and usage meters of an organization counted on a day and later, in the order of the days. */
  listCounts(org_id: string, first_day: string): Promise<CountedDay[]>;
  /** The same for one project, on these days. Days without counts may be missing. */
  listProjectCounts(org_id: string, project_id: string, days: readonly string[]): Promise<CountedDay[]>;
  /** All interventions ever. @param project_id null: of all projects */
  sumInterventions(org_id: string, project_id: string | null): Promise<Partial<UsageCounts>>;
  close(): Promise<void>;
}
