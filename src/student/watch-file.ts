/**
 * Where the watch over a student is kept across restarts: one small file of JSON, put into place whole. What it holds are
 * agents' hashes, names of tools and counts. The student's thread writes it; the command line reads it.
 */

import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { DRIFT, WATCH_FILE_BYTES } from '../limits.ts';
import type { DriftCopy } from './model/drift-watch.ts';

const FORMAT = 'svc_student_watch_v1';

const count = z.int().nonnegative();
const time = z.number().nullable();
const state = { observed: count, wrong: count, bets: z.array(z.number().nonnegative()).length(4) };
const schema = z.object({
  format: z.literal(FORMAT),
  version: count,
  agents: z
    .array(
      z.tuple([
        z.string().max(200),
        z.object({
          ...state,
          suspended_at_ms: time,
          kinds: z
            .array(
              z.tuple([
                z.string().max(300),
                z.object({ ...state, suspicion: z.number().nullable(), suspended_at_ms: time }),
              ]),
            )
            .max(DRIFT.kinds),
        }),
      ]),
    )
    .max(DRIFT.agents),
});

/**
 * Reads it.
 * @returns null when there is none
 * @throws Error of one line for a file that is no such file, or cannot be read
 */
export async function readWatchFile(path: string): Promise<DriftCopy | null> {
  let text: string;
  try {
    if ((await stat(path)).size > WATCH_FILE_BYTES) throw new Error(`${path}: too large to be one of ours`);
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  let value: unknown = null;
  try {
    value = JSON.parse(text);
  } catch {
    // Told below.
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Error(`${path}: damaged, or of another version`);
  const { version, agents } = parsed.data;
  return { version, agents };
}

/** Writes it: a reader sees the one before or this one. */
export async function writeWatchFile(path: string, copy: DriftCopy): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const partial = `${path}.${randomUUID()}.partial`;
  try {
    const handle = await open(partial, 'wx', 0o600);
    try {
      await handle.writeFile(JSON.stringify({ format: FORMAT, ...copy }));
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
