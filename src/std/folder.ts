/**
 * Creates folders with their parents. Node's `mkdirSync` with `recursive` never returns where no folder can be
 * created, as in /proc: it repeatedly mistakes "no such file" for a missing parent. Any thread.
 */
import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Creates a folder and its missing parents.
 * @param mode of the created folders
 * @returns the topmost created folder; undefined if all existed
 * @throws a file system error; ENOTDIR if the name belongs to something else
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

/** Makes created and removed names in a folder survive a power failure. */
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
