/** Writes monitored runs directly to the database, in the form of the run actor. Bench process. */
import { MONITOR_NAMES, type MonitorName } from '../src/domain/monitors/names.ts';
import { RUN_LISTS, type RunListRow, runListKeys } from '../src/domain/run-list.ts';
import { RUN_STARTS, RUNS, type RunRow, type RunStartRow, runKey } from '../src/domain/run-rows.ts';
import { closeStores, type databasePaths, openStores } from '../src/storage/lmdb/stores.ts';
import { LISTINGS } from '../src/storage/row-listing.ts';

/** The organization of the runs. */
export const ORG = 'bench';
/** Runs written in one transaction. */
const BATCH = 5_000;
/** When the newest run began, and the time between the starts of two successive runs. */
export const NEWEST_MS = Date.UTC(2026, 10, 1);
export const APART_MS = 1_000;
/** One run in this many belongs to the agent `rare`, by which benches filter. */
const RARE = 10_000;

/** Writes this many runs, the newest first. */
export async function writeRuns(
  paths: ReturnType<typeof databasePaths>,
  count: number,
  say: (what: string) => void,
): Promise<void> {
  const stores = openStores(paths);
  // Marks the lists as complete. Otherwise the service would list all runs at its start, as after an upgrade.
  const value = { after: null, is_done: true };
  await stores.runs.transact((tx) => tx.write({ op: 'put', table: LISTINGS, row: [RUN_LISTS], value }));
  for (let first = 0; first < count; first += BATCH) {
    say(`${first} runs written`);
    await stores.runs.transact((transaction) => {
      for (let n = first; n < Math.min(first + BATCH, count); n++) {
        const { row, start, started_at_ms } = makeRun(n);
        const { project_id, run_id } = row;
        transaction.write({ op: 'put', table: RUNS, row: runKey(row), value: row });
        transaction.write({ op: 'put', table: RUN_STARTS, row: [ORG, run_id], value: start });
        const listed: RunListRow = { project_id };
        for (const key of runListKeys(row, { started_at_ms, run_id }))
          transaction.write({ op: 'put', table: RUN_LISTS, row: key, value: listed });
      }
    });
  }
  await closeStores(stores);
}

/**
 * Makes the nth run; run 0 is the newest. The runs are finished, because the service would ask the actor of a running
 * run for its totals.
 */
function makeRun(n: number): { row: RunRow; start: RunStartRow; started_at_ms: number } {
  const started_at_ms = NEWEST_MS - n * APART_MS;
  const started_at = new Date(started_at_ms).toISOString();
  const project_id = n % 3 === 0 ? 'web' : 'default';
  // The order of the ids differs from the order in time.
  const run_id = `run-${(Math.imul(n, 0x9e3779b1) >>> 0).toString(36)}-${n.toString(36)}`;
  const fired = Object.fromEntries(
    MONITOR_NAMES.map((name, at) => [name, n % (7 + at) === 0 ? 2 : 0]),
  ) as Record<MonitorName, number>;
  const row: RunRow = {
    org_id: ORG,
    project_id,
    run_id,
    agent_name: n % RARE === 1 ? 'rare' : `agent-${n % 5}`,
    model: 'claude-demo-large',
    framework: 'langgraph',
    task_profile: 'default',
    codebase_id: 'shop',
    experiment_id: '',
    arm: '',
    assignment_unit: '',
    svc_version: '',
    outcome: n % 4 === 0 ? 'failure' : 'success',
    steps: 40 + (n % 60),
    tokens: 12_000 + (n % 9_000),
    duration_ms: 60_000 + (n % 50_000),
    max_total_score: (n % 100) / 100,
    fired,
    status: 'finished',
    started_at,
    finished_at: new Date(started_at_ms + 60_000).toISOString(),
  };
  const task = `Fix the failing test of module ${n % 977}: it passes alone and fails with the others, since yesterday.`;
  return { row, start: { project_id, task, metadata: '', started_at }, started_at_ms };
}
