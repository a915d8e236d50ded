/** Makes the product's stores from tables. Any thread. */
import { TableAccounts } from './accounts/table-accounts.ts';
import type { RunReads } from './ports/run-reads.ts';
import type { TableStores } from './stores.ts';
import { TableExperiments } from './table-experiments.ts';
import { TableRunRecords } from './table-run-records.ts';
import type { Tables } from './tables.ts';

/** Makes the stores. @param runs `main` itself if several boxes share the rows */
export function toStores(main: Tables, runs: Tables, run_reads: RunReads): TableStores {
  return {
    main,
    accounts: new TableAccounts(main),
    runs,
    run_records: new TableRunRecords(runs, runs === main),
    experiments: new TableExperiments(runs),
    run_reads,
  };
}
