/**
 * The path of the plan for a change of the data key (rekey-plan.ts), for code that only checks whether
 * it exists. Any thread.
 */
import { join } from 'node:path';

/** The data that a plan may change. */
export interface PlanPlace {
  data_dir: string;
  capture_db: string;
}

export function planPath(dataDir: string): string {
  return join(dataDir, 'rekey.json');
}

/** Returns the reason why the data can be neither read nor written now. */
export function describePlan(dataDir: string): string {
  return `the data key of ${dataDir} is being changed (understudy rekey), or the change was interrupted and the next start of the service completes or undoes the change`;
}
