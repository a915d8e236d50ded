/**
 * Handlers of `contract/experiments.ts`. A report reads one row per run, in pages, and lets other work run between
 * pages, so that a large experiment delays only its own reader. Server threads.
 */

import { setImmediate as nextTick } from 'node:timers/promises';
import type { EXPERIMENTS } from '../contract/experiments.ts';
import type { HandlersOf } from '../contract/handler.ts';
import { ExperimentTally } from '../domain/experiment.ts';
import { RUNS_BY_EXPERIMENT, type RunSummary, type RunSummaryReader } from '../domain/run-summary.ts';
import { ID_CHARACTERS, PAGE_SCAN_ROWS } from '../limits.ts';
import type { RowKey } from '../runtime/protocol.ts';
import type { Row, RowRange, TableReader } from '../storage/tables.ts';
import { readCursor, writeCursor } from './cursor.ts';
import type { DeletedView } from './deleted-scopes.ts';

/** Rows per page, which take a few milliseconds. */
const PAGE_ROWS = 250;

export function experimentHandlers(services: {
  stores: { runs: TableReader };
  deleted: DeletedView;
}): HandlersOf<typeof EXPERIMENTS> {
  const summaries = new TableRunSummaries(services.stores.runs);
  const { runs } = services.stores;
  /**
   * The greatest id below another one. An id alone sorts before the keys of its runs, so this takes one seek, whatever
   * the number of runs.
   */
  const idBelow = (org_id: string, id: string | null): string | null => {
    const after = id === null ? {} : { after: [org_id, id] };
    const [found] = runs.range(RUNS_BY_EXPERIMENT, { prefix: [org_id], reverse: true, limit: 1, ...after });
    return found === undefined ? null : (found.row[1] as string);
  };
  const isSeen = (org_id: string, project_id: string | null, id: string): boolean => {
    const hidden = services.deleted.hiddenIn(org_id);
    if (project_id === null && hidden.size === 0) return true;
    if (project_id !== null && hidden.has(project_id)) return false;
    const prefix = project_id === null ? [org_id, id] : [org_id, id, project_id];
    // Finds the projects with one seek each: a key whose last part is greater than that of any real key sorts
    // after all keys of a project.
    for (let after: RowKey | null = null; ; ) {
      const range: RowRange = { prefix, limit: 1, ...(after === null ? {} : { after }) };
      const [first] = [...runs.range(RUNS_BY_EXPERIMENT, range)];
      if (first === undefined) return false;
      const projectId = first.row[2] as string;
      if (!hidden.has(projectId)) return true;
      after = [org_id, id, `${projectId}\0`];
    }
  };

  return {
    listExperiments: ({ tenant, query }) => {
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? query.project_id ?? null;
      const experiments: { experiment_id: string }[] = [];
      let last = (readCursor(query.cursor, [{ max: ID_CHARACTERS }])?.[0] as string | undefined) ?? null;
      let next = idBelow(org_id, last);
      for (let looked = 0; next !== null && looked < PAGE_SCAN_ROWS; looked++) {
        if (experiments.length === query.limit) break;
        last = next;
        if (isSeen(org_id, project_id, last)) experiments.push({ experiment_id: last });
        next = idBelow(org_id, last);
      }
      return { body: { experiments, next_cursor: next === null ? null : writeCursor([last!]) } };
    },

    reportExperiment: async ({ tenant, params, query }) => {
      const { experiment_id } = params;
      const tally = new ExperimentTally();
      let read = 0;
      const hidden = services.deleted.hiddenIn(tenant.org_id);
      for (const run of summaries.byExperiment(tenant.org_id, tenant.project_id, experiment_id)) {
        if (!hidden.has(run.project_id)) tally.add(run);
        if (++read % PAGE_ROWS === 0) await nextTick();
      }
      return { body: tally.report(experiment_id, query.expected_on_share) };
    },
  };
}

/** Runs of experiments, from the rows that their actors write. */
class TableRunSummaries implements RunSummaryReader {
  readonly #runs: TableReader;

  constructor(runs: TableReader) {
    this.#runs = runs;
  }

  /** Each page is read within one turn, so that no read transaction outlives it. */
  *byExperiment(org_id: string, project_id: string | null, experiment_id: string): Iterable<RunSummary> {
    const prefix = project_id === null ? [org_id, experiment_id] : [org_id, experiment_id, project_id];
    let after: (string | number)[] | null = null;
    for (;;) {
      const range: RowRange = { prefix, limit: PAGE_ROWS, ...(after === null ? {} : { after }) };
      const page: Row<RunSummary>[] = [...this.#runs.range<RunSummary>(RUNS_BY_EXPERIMENT, range)];
      for (const { value } of page) yield value;
      if (page.length < PAGE_ROWS) return;
      after = page.at(-1)!.row;
    }
  }
}
