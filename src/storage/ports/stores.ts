/** What the product keeps, as a server thread uses it. Types; any thread. */
import type { Accounts } from './accounts.ts';
import type { Experiments } from './experiments.ts';
import type { RunReads } from './run-reads.ts';
import type { RunRecords } from './run-records.ts';

export interface Stores {
  /** What people and organizations have: acknowledged changes are on the disk. */
  accounts: Accounts;
  /** Runs in lists and by name: acknowledged changes survive the end of the process in any way. */
  run_records: RunRecords;
  experiments: Experiments;
  /** Steps of runs, and counters of usage, that may be elsewhere. */
  run_reads: RunReads;
}
