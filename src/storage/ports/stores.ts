/** All stores that a server thread uses. Types; any thread. */
import type { Accounts } from './accounts.ts';
import type { Experiments } from './experiments.ts';
import type { RunReads } from './run-reads.ts';
import type { RunRecords } from './run-records.ts';

export interface Stores {
  /** The rows of people and organizations. Acknowledged changes are on the disk. */
  accounts: Accounts;
  /** Runs in lists and by name. Acknowledged changes survive the end of the process, also a kill. */
  run_records: RunRecords;
  experiments: Experiments;
  /** Steps of runs and counters of usage, which may be in the shared database. */
  run_reads: RunReads;
}
