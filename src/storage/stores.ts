/**
 * The product's databases, as a server thread uses them. Types; any thread.
 */
import type { Accounts } from './ports/accounts.ts';
import type { Experiments } from './ports/experiments.ts';
import type { RunReads } from './ports/run-reads.ts';
import type { RunRecords } from './ports/run-records.ts';
import type { Tables } from './tables.ts';

/** Databases of DATA_DIR. A row is in the one with the durability that it needs. */
export interface Stores {
  /** `main.mdb`: acknowledged changes are on the disk. Patterns, findings, traces, profiles, the control plane. */
  main: Tables;
  /** The same database, as what people and organizations have. */
  accounts: Accounts;
  /**
   * `runs.mdb`: acknowledged changes survive the end of the process in any way. Runs, their steps, usage: rows that
   * every step writes. Syncing the disk would take many times as long as the step. On a box that shares its rows it is
   * `main`, which has the rows of the lists.
   */
  runs: Tables;
  /** The same database, as lists of runs, and as experiments. */
  run_records: RunRecords;
  experiments: Experiments;
  /** Rows of runs and counters of usage that may be elsewhere. */
  run_reads: RunReads;
}
