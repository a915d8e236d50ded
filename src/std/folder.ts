/**
 * Makes folders and those above them. Node's `mkdirSync` with `recursive` does not return where no folder can
 * be made, as in /proc: it takes "no such file" for a missing folder above, again and again. Any thread.
 */
import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder with those above it, as far as they are missing.
 * @param mode of those that are made
 * @returns the topmost one that was made; undefined when all were there
 * @throws Error of the file system; ENOTDIR where something else has the name
 */
export function makeFolder(path: string, mode?: number): string | undefined {
  try {
    return makeOne(path, mode);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw thrown;
  }
  const above = makeFolder(dirname(path), mode);
  const own = makeOne(path, mode);
  return above ?? own;
}

/** Makes new and removed names in a folder survive a power cut. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function makeOne(path: string, mode: number | undefined): string | undefined {
  try {
    mkdirSync(path, mode);
    return path;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw thrown;
    if (statSync(path).isDirectory()) return undefined;
    const told = new Error(`ENOTDIR: not a directory, mkdir '${path}'`);
    throw Object.assign(told, { code: 'ENOTDIR', syscall: 'mkdir', path });
  }
}
