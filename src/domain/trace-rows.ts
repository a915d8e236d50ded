/**
 * The stored rows of a trace: the trace's outcome, and its place in the lists of its project and its organization. The
 * trace's pattern maker writes these rows. A page of such a list is a range of keys, however many traces there are.
 * Pure; any thread.
 */

/** One row per trace: {@link traceRowKey} → TraceRow. */
export const TRACES = 'traces';
/** {@link traceListKeys} → TraceListRow. */
export const TRACE_LISTS = 'trace_lists';
/** The pattern makers with unfinished work, for the start after a crash: `[actor key]` → 1. */
export const UNFINISHED_TRACES = 'traces_unfinished';
/** Stands for every project; no project has this name. */
const EVERY_PROJECT = '';

export type TraceStatus = 'queued' | 'distilling' | 'done' | 'failed';

/** The owner of a trace. */
export interface TraceAddress {
  org_id: string;
  /** null: no project; then its patterns go to the organization's commons. */
  project_id: string | null;
  trace_id: string;
}

/** Status and results of a trace. */
export interface TraceRow {
  trace_id: string;
  project_id: string | null;
  status: TraceStatus;
  /** New patterns and those into which others were merged, without repetitions. */
  pattern_ids: string[];
  patterns_created: number;
  error: string | null;
  /** RFC 3339. */
  submitted_at: string;
  finished_at: string | null;
}

export interface TraceListRow {
  project_id: string | null;
}

/** Makes the key of a trace's row. */
export function traceRowKey({ org_id, project_id, trace_id }: TraceAddress): string[] {
  return [org_id, trace_id, project_id ?? ''];
}

/**
 * Makes the first parts of the keys of a list.
 * @param projectId null: the list of all projects together
 */
export function traceListPrefix(orgId: string, projectId: string | null): [org_id: string, list: string] {
  return [orgId, projectId ?? EVERY_PROJECT];
}

/**
 * Makes the keys of a trace in its lists. Traces of several projects may have the same id, so the key ends with the
 * project.
 */
export function traceListKeys(
  { org_id, project_id, trace_id }: TraceAddress,
  submittedAtMs: number,
): (string | number)[][] {
  const lists = project_id === null ? [EVERY_PROJECT] : [project_id, EVERY_PROJECT];
  return lists.map((list) => [org_id, list, submittedAtMs, trace_id, project_id ?? '']);
}
