/**
 * Sets a capture file with damaged pages aside under another name, whole and never deleted, so that
 * a new one can take its place. Capture process; the names any thread.
 *
 *   capture.damaged-20261122T190709123.mdb           the file as it was, for `understudy inspect` as far as it goes
 *   capture.damaged-20261122T190709123.mdb.raw/      what waited beside it to be packed
 *   capture.1-5321.damaged-20261122T190709123.mdb    the same of a file that was about to be sealed
 */
import { existsSync, linkSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { makeFolder } from '../../std/folder.ts';
import { removeCheckpoint } from '../lmdb/checkpoint.ts';
import { CaptureFileError, damagedPath, isDamagedName, listSealed, rawFolder } from './layout.ts';

/** LMDB's error numbers for a missing page, a page of the wrong kind, a file of another format, and what follows from these. */
const LMDB_DAMAGE: readonly unknown[] = [
  -30_797, -30_796, -30_793, -30_787, -30_786, -30_782, -30_779, -30_778,
];

/** The same of a copy that fails, for which it tells no number. */
const LMDB_WORDS = /^(?:Error: )?MDB_(?:CORRUPTED|PAGE_NOTFOUND|INVALID)\b/;

/**
 * Whether an error of opening a capture file, or of writing to it, says that its content is damaged. A full disk, another
 * program's file and a file of a newer version are not damage.
 * @param isOurs the file is known to have been a capture database
 */
export function isDamage(error: unknown, isOurs: boolean): boolean {
  if (!(error instanceof Error)) return false;
  const { code, cause, syscall } = error as Error & { code?: unknown; syscall?: string };
  if (LMDB_DAMAGE.includes(code) || LMDB_WORDS.test(error.message)) return true;
  // A row that is not the last one of its table, though the file was opened anew (`appendRow`).
  if (code === 'EBUSY' && syscall === undefined) return true;
  if (!(error instanceof CaptureFileError))
    return cause === undefined ? code === 'damaged' : isDamage(cause, isOurs);
  if (error.code === 'damaged') return !isOfSystem(cause);
  return isOurs && (error.code === 'truncated' || error.code === 'not_a_capture');
}

/** Whether the system refused something: a string like ENOSPC, or its number. */
export function isOfSystem(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, cause } = error as Error & { code?: unknown };
  if (typeof code === 'number' && code > 0) return true;
  return (typeof code === 'string' && /^E[A-Z0-9]{2,}$/.test(code)) || isOfSystem(cause);
}

/**
 * Sets the live file aside with what belongs to it alone. Nothing may have it open.
 * @returns where it is now; null when there was none
 * @throws the storage's error
 */
export function setLiveAside(path: string, now: Date): string | null {
  return existsSync(path) ? setAside(path, path, now) : null;
}

/** The same of all files that were about to be sealed. */
export function setSealingAside(path: string, now: Date): string[] {
  return listSealed(path).flatMap((file) => (file.sealing ? [setAside(file.path, path, now)] : []));
}

function setAside(file: string, live: string, now: Date): string {
  const target = freeName(file, now);
  // Files that are moved aside and the live one may both wait for blocks in one raw file: each keeps a name of it.
  const raw = rawFolder(live);
  const kept = rawFolder(target);
  for (const name of listNames(raw)) {
    makeFolder(kept);
    try {
      linkSync(join(raw, name), join(kept, name));
    } catch {
      // Where a file has one name only.
      renameSync(join(raw, name), join(kept, name));
    }
  }
  renameSync(file, target);
  // Who reads it makes one anew; the old one would be taken for the next file's.
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

/** Names of the files that lie aside, without their folder. */
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
