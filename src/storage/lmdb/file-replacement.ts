/**
 * How a database file gets a new one in its place while a command has it open. A command such as `understudy keys` writes a row
 * without a claim on DATA_DIR (writer-claim.ts). What it wrote to the old file would be lost.
 *
 *   - A replacement first makes its marker: the new file under its draft name, or a plan (plan-file.ts). Then it waits for the
 *     transaction under way, copies the rows, and renames.
 *   - A command looks for the marker, and whether the file is still at its path, in each of its write transactions. LMDB has one
 *     writer at a time. So a commit is either before the copy, or it finds the marker or the new file.
 *
 * Any thread.
 */
import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { open } from 'lmdb';
import { describePlan, planPath } from '../plan-file.ts';

/** Where a new file is written until it is whole. */
export function draftPath(path: string): string {
  return `${path}.new`;
}

/** The file cannot be written to now. One line for the person. */
export class FileReplacementError extends Error {
  override readonly name = 'FileReplacementError';
  /** Marks it as no fault of ours. */
  readonly code = 'ESTORES';
}

/** The file at the path is another one than the one that is open. */
export class FileReplacedError extends Error {
  override readonly name = 'FileReplacedError';
}

/** @throws FileReplacementError while the file is being replaced */
export function refuseReplacement(path: string): void {
  const folder = dirname(path);
  if (existsSync(planPath(folder)))
    throw new FileReplacementError(`${describePlan(folder)}: try again when it is done`);
  if (existsSync(draftPath(path)))
    throw new FileReplacementError(
      `${path} is being written anew, or that was cut short: try again later, or start the service`,
    );
}

/** Names the file at a path; null where it is missing. */
export function readFileNumber(path: string): bigint | null {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}

/**
 * Waits until the write transaction under way in the file has ended. Later ones find the marker.
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
