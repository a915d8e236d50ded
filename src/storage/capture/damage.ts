/**
 * Renames a damaged capture file, so that a new one can take its place. The damaged file is kept whole and never
 * deleted. The capture process renames; any thread may list the names.
 *   capture.damaged-20261122T190709123.mdb the damaged file; `understudy inspect` shows what is readable
 *   capture.damaged-20261122T190709123.mdb.raw/ its raw files, which were not packed yet
 *   capture.1-5321.damaged-20261122T190709123.mdb     a damaged file that was about to be sealed
 */
import { existsSync, linkSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { makeFolder } from '../../std/folder.ts';
import { removeCheckpoint } from '../lmdb/checkpoint.ts';
import { CaptureFileError, damagedPath, isDamagedName, listSealed, rawFolder } from './layout.ts';

/**
 * LMDB's error numbers for a missing page, a page of the wrong type, an unknown file format, and for errors that follow
 * from these.
 */
const LMDB_DAMAGE: readonly unknown[] = [
  -30_797, -30_796, -30_793, -30_787, -30_786, -30_782, -30_779, -30_778,
];

/** Matches the text of the same errors. A failed copy has only a text, no number. */
const LMDB_WORDS = /^(?:Error: )?MDB_(?:CORRUPTED|PAGE_NOTFOUND|INVALID)\b/;

/**
 * Whether an error while opening or writing a capture file means that its content is damaged. A full disk, a file of
 * another program or of a newer version is not damage.
 * @param isOurs whether the file is known to have been a capture database: it then counts as damaged, too, if it is cut
 * off or no longer a capture database
 */
export function isDamage(error: unknown, isOurs: boolean): boolean {
  if (!(error instanceof Error)) return false;
  const { code, cause, syscall } = error as Error & { code?: unknown; syscall?: string };
  if (LMDB_DAMAGE.includes(code) || LMDB_WORDS.test(error.message)) return true;
  // `appendRow` found a row with a later key although the file was just opened, so the file's content is inconsistent.
  if (code === 'EBUSY' && syscall === undefined) return true;
  if (!(error instanceof CaptureFileError))
    return cause === undefined ? code === 'damaged' : isDamage(cause, isOurs);
  if (error.code === 'damaged') return !isOfSystem(cause);
  return isOurs && (error.code === 'truncated' || error.code === 'not_a_capture');
}

/** Whether the operating system reported the error: a code like ENOSPC, or an error number. */
export function isOfSystem(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, cause } = error as Error & { code?: unknown };
  if (typeof code === 'number' && code > 0) return true;
  return (typeof code === 'string' && /^E[A-Z0-9]{2,}$/.test(code)) || isOfSystem(cause);
}

/**
 * Renames the live file and the files that belong only to it. No process may have it open.
 * @returns the new path; null if the live file does not exist
 * @throws the storage's error
 */
export function setLiveAside(path: string, now: Date): string | null {
  return existsSync(path) ? setAside(path, path, now) : null;
}

/** Renames all files that were about to be sealed, like `setLiveAside`. @returns the new paths */
export function setSealingAside(path: string, now: Date): string[] {
  return listSealed(path).flatMap((file) => (file.sealing ? [setAside(file.path, path, now)] : []));
}

function setAside(file: string, live: string, now: Date): string {
  const target = freeName(file, now);
  // The renamed file and another file may both have blocks in the same raw file, so it is linked into both folders.
  const raw = rawFolder(live);
  const kept = rawFolder(target);
  for (const name of listNames(raw)) {
    makeFolder(kept);
    try {
      linkSync(join(raw, name), join(kept, name));
    } catch {
      // For example, the file system has no hard links.
      renameSync(join(raw, name), join(kept, name));
    }
  }
  renameSync(file, target);
  // LMDB would use this lock file for the next database of the same name. A reader of the renamed file creates a new
  // one.
  rmSync(`${file}-lock`, { force: true });
  removeCheckpoint(file);
  return target;
}

function freeName(file: string, now: Date): string {
  for (let at = now.getTime(); ; at++) {
    const target = damagedPath(file, new Date(at));
    if (!existsSync(target)) return target;
  }
}

/** Lists the names of the damaged files that were renamed, without their folder. */
export function listDamaged(path: string): string[] {
  const folder = dirname(path);
  return listNames(folder).filter((name) => isDamagedName(basename(path), name));
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}
