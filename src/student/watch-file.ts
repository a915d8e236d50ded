/**
 * Keeps the watch over a student across restarts, in one small JSON file that is replaced whole. It holds agents'
 * hashes, names of tools and counts. The student's thread writes it; the command line and server threads read it.
 */

import { z } from 'zod';
import type { DriftCopy } from './model/drift-watch.ts';
import { DRIFT } from './model/drift-watch.ts';
import { readWholeJson, writeWhole } from './whole-file.ts';

/** Largest size of the watch's file. */
const WATCH_FILE_BYTES = 8 << 20;

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
 * Reads the watch from its file.
 * @returns null when there is no file
 * @throws Error with a one-line message for a file that is damaged or cannot be read
 */
export async function readWatchFile(path: string): Promise<DriftCopy | null> {
  const value = await readWholeJson(path, WATCH_FILE_BYTES);
  if (value === null) return null;
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Error(`${path}: damaged, or of another version`);
  const { version, agents } = parsed.data;
  return { version, agents };
}

/** Writes the watch to its file. A reader sees either the previous content or the new content. */
export async function writeWatchFile(path: string, copy: DriftCopy): Promise<void> {
  await writeWhole(path, JSON.stringify({ format: FORMAT, ...copy }));
}
