/**
 * Makes files and folders survive a power failure. Any thread.
 */
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { namePlace } from './file-place.ts';

/** fsync of one file or folder: of a folder, the names in it. @throws Error of the file system, with the place */
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
