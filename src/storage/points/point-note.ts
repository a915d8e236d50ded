/**
 * Records the time up to which each place has restore points in a file of DATA_DIR, `backup-point.<place's digest>`,
 * for the service's metrics. The command line writes the file, the main thread reads it.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

/** Maximum number of notes that are read. The points of a DATA_DIR are usually sent to one or two places. */
const NOTES_MAX = 16;
const NAME = /^backup-point\.[0-9a-f]{16}$/;

/** The place, and the time before which everything that was acknowledged is in the place. */
const noteSchema = z.object({ place: z.string().max(500), from_ms: z.number() });
type PointNote = z.output<typeof noteSchema>;

/** Replaces the note of a place. @throws a file system error */
export function writePointNote(dataDir: string, note: PointNote): void {
  const digest = createHash('sha256').update(note.place).digest('hex').slice(0, 16);
  const path = join(dataDir, `backup-point.${digest}`);
  writeFileSync(`${path}.partial`, JSON.stringify(note), { mode: 0o600 });
  renameSync(`${path}.partial`, path);
}

/**
 * Reads up to NOTES_MAX notes of DATA_DIR. Leaves out notes of another format.
 * @returns an empty list if the folder or a note's file cannot be read
 */
export function readPointNotes(dataDir: string): PointNote[] {
  try {
    const names = readdirSync(dataDir).filter((name) => NAME.test(name));
    return names.slice(0, NOTES_MAX).flatMap((name) => {
      const parsed = noteSchema.safeParse(parse(readFileSync(join(dataDir, name), 'utf8')));
      return parsed.success ? [parsed.data] : [];
    });
  } catch {
    return [];
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
