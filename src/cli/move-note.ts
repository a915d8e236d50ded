/**
 * The note of an `understudy move` that has begun to put files in place. If the move is interrupted, the next
 * `understudy move` learns from the note what was done. The note is a file in DATA_DIR, which is removed when the move
 * has ended. Main thread.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { syncPath } from '../std/synced-path.ts';

const note = z.object({
  to: z.enum(['postgres', 'folder']),
  /** Names the commit that has the rows in the database. */
  id: z.string(),
  rows: z.number(),
  tables: z.number(),
  /** Digests of the files whose rows were moved; null: there was no such file. Unused with `--to folder`. */
  main: z.string().nullable(),
  runs: z.string().nullable(),
});

export type MoveNote = z.infer<typeof note>;

function notePath(dataDir: string): string {
  return join(dataDir, 'move.json');
}

/** Reads the note. Returns null if no move was interrupted, or the interrupted move had put no file in place. */
export function readMoveNote(dataDir: string): MoveNote | null {
  try {
    return note.parse(JSON.parse(readFileSync(notePath(dataDir), 'utf8')));
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw thrown;
  }
}

/** Writes the note, which is on the disk when this returns. @throws a file system error */
export function writeMoveNote(dataDir: string, written: MoveNote): void {
  const path = notePath(dataDir);
  writeFileSync(`${path}.partial`, JSON.stringify(written));
  syncPath(`${path}.partial`);
  renameSync(`${path}.partial`, path);
  syncPath(dirname(path));
}

export function removeMoveNote(dataDir: string): void {
  rmSync(notePath(dataDir), { force: true });
}
