/**
 * Opens the files of the capture database for a restore point while the gateway writes and rotates. Command line.
 * As for a backup (../backup-captures.ts), the live file is used only if the list of sealed files is the same before
 * and after it is opened. Blocks may still be in raw files. All raw files that exist at that moment are opened with the
 * database, so that a raw file that is removed later can still be read.
 */

import { readdirSync } from 'node:fs';
import { extname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isThere } from '../../std/file-place.ts';
import { BackupError, CAPTURE } from '../backup-manifest.ts';
import { listSealed, rawFolder, type SealedFile } from '../capture/layout.ts';
import { openDatabasePages, openPlainPages, type PageSource } from './page-source.ts';
import type { PointFile } from './point.ts';

const ATTEMPTS = 10;
/** Pause between two attempts, in which a rotation can open the new live file. */
const REOPEN_MS = 200;

export interface OpenedFile extends Pick<PointFile, 'name' | 'kind'> {
  source: PageSource;
}

interface OpenedCaptures {
  /** The live file, the files that are not sealed yet, and the raw files. The caller closes them. */
  changing: OpenedFile[];
  /** Sealed files, which do not change. */
  sealed: { name: string; path: string }[];
}

/**
 * Opens the files of a capture database. If a rotation or the removal of a raw file disturbs an attempt, tries again,
 * up to ten times. The caller closes the changing files.
 * @param nowMs the time of the wall clock
 * @throws BackupError if every attempt was disturbed; a file system or LMDB error
 */
export async function openCaptures(
  db: string,
  dataKey: Uint8Array | null,
  nowMs: number,
): Promise<OpenedCaptures> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = listOthers(db);
    if (isThere(db) || attempt > 2) {
      const opened = await tryOpen(db, dataKey, before, nowMs);
      if (opened !== null) return opened;
    }
    await delay(REOPEN_MS);
  }
  throw new BackupError('the capture database is rotated too often; try again');
}

/** Opens the files once. @returns null if a rotation or the removal of a raw file disturbed the attempt */
async function tryOpen(
  db: string,
  dataKey: Uint8Array | null,
  others: readonly SealedFile[],
  nowMs: number,
): Promise<OpenedCaptures | null> {
  const changing: OpenedFile[] = [];
  const sealed: OpenedCaptures['sealed'] = [];
  const rawBefore = listRaw(db);
  try {
    for (const { path, first_id, last_id, sealing } of others) {
      const name = `capture.${first_id}-${last_id}${extname(db)}`;
      if (sealing) changing.push({ name, kind: 'sealed', source: openDatabasePages(path, dataKey) });
      else sealed.push({ name, path });
    }
    if (isThere(db))
      changing.push({ name: CAPTURE, kind: 'capture', source: openDatabasePages(db, dataKey) });
    const raw = listRaw(db);
    for (const name of raw) {
      const source = openPlainPages(join(rawFolder(db), name), nowMs);
      changing.push({ name: `raw/${name}`, kind: 'raw', source });
    }
    const isWhole = rawBefore.every((name) => raw.includes(name));
    if (isWhole && describeFiles(listOthers(db)) === describeFiles(others)) return { changing, sealed };
  } catch (thrown) {
    await closeAll(changing);
    // A rotation renames files, and the gateway removes raw files that it has packed.
    const isMoved = describeFiles(listOthers(db)) !== describeFiles(others) || !isThere(db);
    if (isMoved || (thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw thrown;
  }
  await closeAll(changing);
  return null;
}

export async function closeAll(files: readonly OpenedFile[]): Promise<void> {
  for (const { source } of files) await source.close();
}

function listRaw(db: string): string[] {
  const folder = rawFolder(db);
  return isThere(folder) ? readdirSync(folder).filter((name) => /^\d{1,9}\.raw$/.test(name)) : [];
}

function describeFiles(files: readonly SealedFile[]): string {
  return files.map(({ first_id, sealing }) => `${first_id} ${sealing}`).join();
}

/** Lists one file for each range of ids, because a file that was just sealed may exist under both names. */
function listOthers(db: string): SealedFile[] {
  const files = listSealed(db);
  return files.filter(
    ({ sealing, first_id }) => !sealing || !files.some((file) => !file.sealing && file.first_id === first_id),
  );
}
