/**
 * Makes files and folders survive a power failure. Any thread.
 */
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
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

/**
 * Syncs a path like {@link syncPath}, without blocking the thread.
 * @throws a file system error, with the path
 */
export async function syncPathAside(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } catch (thrown) {
    throw namePlace(thrown, path);
  } finally {
    await file.close();
  }
}
