/**
 * The stored data of a run in an experiment, for the experiment's report: one row per run, which the run actor
 * writes in the transaction of the event that changes the row. Pure; any thread.
 */

import { createHash } from 'node:crypto';

/** Table of these rows. */
export const RUNS_BY_EXPERIMENT = 'runs_by_experiment';

/** An arm of an experiment; '' when the run named none. */
export type Arm = 'on' | 'off' | '';

export interface RunSummary {
  run_id: string;
  org_id: string;
  project_id: string;
  experiment_id: string;
  arm: Arm;
  /** The unit that was assigned to an arm (a user, a repository); '' when the run itself is the unit. */
  assignment_unit: string;
  svc_version: string;
  status: 'running' | 'finished';
  /** '' while running. */
  outcome: string;
  steps: number;
  tokens: number;
  /** From start to finish; 0 while running. */
  duration_ms: number;
  /** RFC 3339. */
  started_at: string;
  /** RFC 3339; null while running. */
  finished_at: string | null;
}

/** Makes the key of a run's row. The experiment precedes the project, so that an organization's key reads one range. */
export function runSummaryKey(
  run: Pick<RunSummary, 'org_id' | 'experiment_id' | 'project_id' | 'run_id'>,
): [org_id: string, experiment_id: string, project_id: string, run_id: string] {
  return [run.org_id, run.experiment_id, run.project_id, run.run_id];
}

/**
 * Makes the row that an experiment keeps of a deleted run: the counts, without the run's name. A new run with that name
 * is a separate run.
 * @param mark distinguishes deleted runs with the same name
 */
export function anonymizeSummary(summary: RunSummary, mark: string): RunSummary {
  const name = createHash('sha256').update(`${summary.run_id}\n${mark}`).digest('hex').slice(0, 32);
  return { ...summary, run_id: `deleted-${name}` };
}

/** Classifies an outcome: `success` itself, anything that begins with `failure`, or any other text. */
export function classifyOutcome(outcome: string): 'success' | 'failure' | 'other' {
  if (outcome === 'success') return 'success';
  return outcome.startsWith('failure') ? 'failure' : 'other';
}
