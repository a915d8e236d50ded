/**
 * Handlers of `contract/experiments.ts`. A report reads one row a run, in pages with turns in between, so that a large
 * experiment delays its own reader alone. Server threads.
 */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EXPERIMENTS } from '../contract/experiments.ts';
import type { HandlersOf } from '../contract/handler.ts';
import { ExperimentTally } from '../domain/experiment.ts';
import { RUNS_BY_EXPERIMENT, type RunSummary, type RunSummaryReader } from '../domain/run-summary.ts';
import type { Row, RowRange, TableReader } from '../storage/tables.ts';

/** Rows of a page: a few milliseconds. */
const PAGE_ROWS = 250;

export function experimentHandlers(services: {
  stores: { runs: TableReader };
}): HandlersOf<typeof EXPERIMENTS> {
  const summaries = new TableRunSummaries(services.stores.runs);
  return {
    reportExperiment: async ({ tenant, params, query }) => {
      const { experiment_id } = params;
      const tally = new ExperimentTally();
      let read = 0;
      for (const run of summaries.byExperiment(tenant.org_id, tenant.project_id, experiment_id)) {
        tally.add(run);
        if (++read % PAGE_ROWS === 0) await nextTurn();
      }
      return { body: tally.report(experiment_id, query.expected_on_share) };
    },
  };
}

/** Runs of experiments out of the rows that their actors write. */
class TableRunSummaries implements RunSummaryReader {
  readonly #runs: TableReader;

  constructor(runs: TableReader) {
    this.#runs = runs;
  }

  /** Each page is read whole in one turn, so that no read transaction outlives it. */
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
