/**
 * The path of the plan for a change of the data key or an erasure (rekey-plan.ts), for code that only checks whether
 * it exists. Any thread.
 */
import { join } from 'node:path';

/** The folders in which a plan may change something. */
export interface PlanPlace {
  data_dir: string;
  capture_db: string;
}

export function planPath(dataDir: string): string {
  return join(dataDir, 'rekey.json');
}

/** The reason why the data can be neither read nor written now. */
export function describePlan(dataDir: string): string {
  return `what ${dataDir} holds is being written anew (understudy rekey, understudy erase), or that was cut short, which the next start settles`;
}
