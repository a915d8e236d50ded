/**
 * The list of an organization's runs, newest first. The run actor writes two small rows with the start of each run,
 * one for its project and one for all projects. So a page is a range of keys, however many runs there are. Pure; any
 * thread.
 */
import type { MonitorName } from './monitors/names.ts';
import type { RunRow } from './run-rows.ts';

/** Two rows per run, one in the list of its project and one in that of all projects; keys {@link runListKeys}. */
export const RUN_LISTS = 'run_lists';
/** Stands for every project; no project has this name. */
const EVERY_PROJECT = '';

export interface RunListRow {
  project_id: string;
}

/** The position of a run in a list. */
interface RunPlace {
  started_at_ms: number;
  run_id: string;
}

type RunListKey = [org_id: string, project_id: string, started_at_ms: number, run_id: string];

/**
 * Makes the first parts of the keys of a list.
 * @param projectId null: the list of all projects together
 */
export function runListPrefix(orgId: string, projectId: string | null): [org_id: string, project_id: string] {
  return [orgId, projectId ?? EVERY_PROJECT];
}

/** Makes the keys of a run in its project's list and in the list of all projects. */
export function runListKeys(
  { org_id, project_id }: Pick<RunRow, 'org_id' | 'project_id'>,
  { started_at_ms, run_id }: RunPlace,
): RunListKey[] {
  return [project_id, EVERY_PROJECT].map((list) => [org_id, list, started_at_ms, run_id]);
}

/** Reads a run's position from a key of a list. */
export function placeOfKey(row: readonly (string | number)[]): RunPlace {
  return { started_at_ms: row[2] as number, run_id: row[3] as string };
}

/** Narrows a list; null: any value. */
export interface RunFilter {
  outcome: string | null;
  status: RunRow['status'] | null;
  task_profile: string | null;
  agent_name: string | null;
  /** A monitor that fired at least once. */
  fired: MonitorName | null;
}

export function passesFilter(run: RunRow, filter: RunFilter): boolean {
  return (
    (filter.outcome === null || run.outcome === filter.outcome) &&
    (filter.status === null || run.status === filter.status) &&
    (filter.task_profile === null || run.task_profile === filter.task_profile) &&
    (filter.agent_name === null || run.agent_name === filter.agent_name) &&
    (filter.fired === null || run.fired[filter.fired] > 0)
  );
}
