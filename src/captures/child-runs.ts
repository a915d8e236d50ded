/** The child runs of a run: a client's sub-agents and side calls within its session. Command line. */
import type { ChildRunName } from '../domain/captured-run.ts';
import { NAMED_CHILD_RUNS } from '../limits.ts';
import type { ExchangeSource } from './exchange-source.ts';

/**
 * Lists the child runs in one pass over the records.
 * @returns the first NAMED_CHILD_RUNS, in the order in which their first exchanges were stored
 */
export function listChildRuns(source: ExchangeSource, runId: string): ChildRunName[] {
  const found = new Map<string, ChildRunName>();
  for (const { run_id, parent_run_id, run_kind } of source.summaries()) {
    if (parent_run_id !== runId || run_id === null || found.has(run_id)) continue;
    found.set(run_id, { run_id, kind: run_kind ?? null });
    if (found.size === NAMED_CHILD_RUNS) break;
  }
  return [...found.values()];
}
