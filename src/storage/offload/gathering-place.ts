/** Where captures from a bucket go on a machine that reads them. Any thread. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

/** Where captures come from, and the folder here. */
export interface GatheringPlace {
  place: string;
  folder: string;
}

/** The folder for captures from a place: commands and the service share what they fetch. */
export function gatheringFolder(dataDir: string, place: string): string {
  const name = createHash('sha256').update(new URL(place).href.replace(/\?$/, '')).digest('hex').slice(0, 16);
  return join(dataDir, 'bucket-captures', name);
}

/** The database whose name the saved list of gathered captures has. */
export function gatheredListDb(folder: string): string {
  return join(folder, 'gathered.mdb');
}
