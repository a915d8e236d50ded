/** The product's databases as a server thread sees them. Types; any thread. */
import type { Tables } from './tables.ts';

/** Databases of DATA_DIR. A row is in the one with the durability that it needs. */
export interface Stores {
  /** `main.mdb`: what is acknowledged is on the disk. Patterns, findings, traces, profiles, the control plane. */
  main: Tables;
  /**
   * `runs.mdb`: what is acknowledged survives the end of the process by any means. Runs, their steps, usage: written
   * with every step, where a sync of the disk would cost many times the step.
   */
  runs: Tables;
}
