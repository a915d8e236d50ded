/**
 * Replaces a database file safely while a command may have it open. A command such as `understudy keys` writes rows
 * without a claim on DATA_DIR (writer-claim.ts). Without these checks, a row that it writes to the old file during a
 * replacement would be lost.
 *   - A replacement first creates a marker: the new file under its draft name, or a plan (plan-file.ts). Then it waits
 *     for the running write transaction, copies the rows, and renames the new file.
 *   - A command checks in each write transaction that there is no marker and that its open file is still the file at
 *     the path. LMDB allows one writer at a time, so a commit either precedes the copy, or finds the marker or the new
 *     file.
 * Any thread.
 */
import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { open } from 'lmdb';
import { describePlan, planPath } from '../plan-file.ts';

/** Returns the path of a new file until it is complete. */
export function draftPath(path: string): string {
  return `${path}.new`;
}

/** The file cannot be written now. The message is one line for the operator. */
export class FileReplacementError extends Error {
  override readonly name = 'FileReplacementError';
  /** Marks an expected error, which is not a fault of the program. */
  readonly code = 'ESTORES';
}

/** The file at the path is not the file that is open. */
export class FileReplacedError extends Error {
  override readonly name = 'FileReplacedError';
}

/** Refuses to use a file that is being replaced. @throws FileReplacementError */
export function refuseReplacement(path: string): void {
  const folder = dirname(path);
  if (existsSync(planPath(folder)))
    throw new FileReplacementError(`${describePlan(folder)}: try again when that is done`);
  if (existsSync(draftPath(path)))
    throw new FileReplacementError(
      `${path} is being rewritten, or the rewriting was interrupted: try again later, or start the service`,
    );
}

/** Reads the inode of the file at a path; null if it is missing. */
export function readFileNumber(path: string): bigint | null {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}

/**
 * Waits until the running write transaction of the file has ended. Later ones find the marker.
 * @throws Error of LMDB
 */
export async function waitForWriter(path: string): Promise<void> {
  const root = open({ path, noSubdir: true, overlappingSync: false, cache: false });
  try {
    root.transactionSync(() => {});
  } finally {
    await root.close();
  }
}
