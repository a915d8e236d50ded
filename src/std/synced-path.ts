/**
 * Makes files and folders survive a power failure. Any thread.
 */
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { namePlace } from './file-place.ts';

/** Syncs a file, or the names in a folder. @throws a file system error, with the path */
export function syncPath(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } catch (thrown) {
    throw namePlace(thrown, path);
  } finally {
    closeSync(file);
  }
}
