/**
 * Reads and writes small files that are always replaced as a whole: a reader sees either the previous content or the
 * new content. A write returns when the content is on the disk. Any thread.
 */

import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Reads JSON.
 * @param most maximum size of the file in bytes
 * @returns the value; undefined for anything but JSON; null for a missing file
 * @throws Error with a one-line message for a path that is no file and for a file that is too large, or the system's
 *   error
 */
export async function readWholeJson(path: string, most: number): Promise<unknown> {
  let text: string;
  try {
    const found = await stat(path);
    if (!found.isFile()) throw new Error(`${path}: not a file`);
    if (found.size > most) throw new Error(`${path}: too large for a file of Understudy`);
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/**
 * Writes text to a file that only its owner can read; missing parent folders are created.
 * @throws the system's error; the previous content is then unchanged
 */
export async function writeWhole(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const partial = `${path}.${randomUUID()}.partial`;
  try {
    const handle = await open(partial, 'wx', 0o600);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}
