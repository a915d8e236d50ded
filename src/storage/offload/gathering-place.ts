/** The folder for captures that were fetched from a bucket. Any thread. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

/** The bucket, and the local folder for its captures. */
export interface GatheringPlace {
  place: string;
  folder: string;
}

/** Returns the folder for captures from a place. Commands and the service use the same folder. */
export function gatheringFolder(dataDir: string, place: string): string {
  const name = createHash('sha256').update(new URL(place).href.replace(/\?$/, '')).digest('hex').slice(0, 16);
  return join(dataDir, 'bucket-captures', name);
}

/** Returns the path after which the run index of gathered captures is named. */
export function gatheredListDb(folder: string): string {
  return join(folder, 'gathered.mdb');
}
