/**
 * Handlers of `contract/experiments.ts`. A report reads one row per run, in pages, and lets other work run between
 * pages, so that a large experiment delays only its own reader. Server threads.
 */

import { setImmediate as nextTick } from 'node:timers/promises';
import type { EXPERIMENTS } from '../contract/experiments.ts';
import type { HandlersOf } from '../contract/handler.ts';
import { ExperimentTally } from '../domain/experiment.ts';
import { ID_CHARACTERS, PAGE_SCAN_ROWS } from '../limits.ts';
import type { Experiments } from '../storage/ports/experiments.ts';
import { readCursor, writeCursor } from './cursor.ts';
import type { DeletedView } from './deleted-scopes.ts';

/** Number of runs that are read, in a few milliseconds, before other requests get a turn. */
const RUNS_A_TURN = 250;

export function experimentHandlers(services: {
  stores: { experiments: Experiments };
  deleted: DeletedView;
}): HandlersOf<typeof EXPERIMENTS> {
  const { experiments: stored } = services.stores;
  const isSeen = (org_id: string, project_id: string | null, id: string): boolean => {
    const hidden = services.deleted.hiddenIn(org_id);
    if (project_id === null && hidden.size === 0) return true;
    if (project_id !== null && hidden.has(project_id)) return false;
    for (const found of stored.listProjects(org_id, id, project_id)) if (!hidden.has(found)) return true;
    return false;
  };

  return {
    listExperiments: ({ tenant, query }) => {
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? query.project_id ?? null;
      const experiments: { experiment_id: string }[] = [];
      let last = (readCursor(query.cursor, [{ max: ID_CHARACTERS }])?.[0] as string | undefined) ?? null;
      let next = stored.findBelow(org_id, last);
      for (let looked = 0; next !== null && looked < PAGE_SCAN_ROWS; looked++) {
        if (experiments.length === query.limit) break;
        last = next;
        if (isSeen(org_id, project_id, last)) experiments.push({ experiment_id: last });
        next = stored.findBelow(org_id, last);
      }
      return { body: { experiments, next_cursor: next === null ? null : writeCursor([last!]) } };
    },

    reportExperiment: async ({ tenant, params, query }) => {
      const { experiment_id } = params;
      const tally = new ExperimentTally();
      let read = 0;
      const hidden = services.deleted.hiddenIn(tenant.org_id);
      for (const run of stored.listRuns(tenant.org_id, tenant.project_id, experiment_id)) {
        if (!hidden.has(run.project_id)) tally.add(run);
        if (++read % RUNS_A_TURN === 0) await nextTick();
      }
      return { body: tally.report(experiment_id, query.expected_on_share) };
    },
  };
}
