/**
 * How usage is counted: one row of counters for each organization, UTC day and project, added to in the transaction of
 * what is counted. Pure; any thread.
 */

/** Table of these rows, in `runs.mdb`. */
export const USAGE = 'usage';

/** Names of the counters; a missing one is 0. */
export interface UsageCounts {
  runs: number;
  steps: number;
  tokens: number;
  traces: number;
  /** Calls, whether or not anything was found. */
  retrievals: number;
  evaluations: number;
  /** Interventions: retrievals that returned a pattern, evaluations that answered `inject: true`. */
  injections_retrieve: number;
  injections_evaluate: number;
}

/** Key of a row. The day stands before the project, so that an organization's period is one range. */
export function usageKey(
  orgId: string,
  atMs: number,
  projectId: string,
): [org_id: string, day: string, project_id: string] {
  return [orgId, new Date(atMs).toISOString().slice(0, 10), projectId];
}
