/** The product's databases as tables, with the ports over them. Types; any thread. */
import type { Stores } from './ports/stores.ts';
import type { Tables } from './tables.ts';

/** Databases of DATA_DIR. Each row is in the database with the durability that the row needs. */
export interface TableStores extends Stores {
  /** `main.mdb`: acknowledged changes are on the disk. Patterns, findings, traces, profiles, the control plane. */
  main: Tables;
  /**
   * `runs.mdb`: acknowledged changes survive the end of the process, also a kill. Runs, their steps, usage: rows that
   * every step writes. Syncing the disk would take many times as long as the step. On a box that shares its rows,
   * `runs` is `main`, which has the rows of the lists.
   */
  runs: Tables;
}
