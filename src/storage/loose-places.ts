/**
 * Finds folders and files of this program that other users of the machine may use, as an earlier version or a careless copy left
 * them. It changes nothing: a folder may be shared on purpose. Main thread, at the start.
 */
import { type Dirent, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Folders and files open to other users that the start counts. It names one of them. */
const LOOSE_PLACES_MAX = 1_000;

/** What others may use. */
interface LoosePlaces {
  count: number;
  /** There may be more: so many were found that looking ended. */
  is_cut: boolean;
  /** The first one. */
  first: string;
}

/** Every right of the group and of others. */
const OTHERS = 0o077;
/** Folders in DATA_DIR; what is in them is ours too. */
const FOLDERS = /^(?:secrets|pattern-graphs|demo|.+\.mdb\.(?:files|raw))$/;
const FILES = /(?:\.mdb(?:-lock)?|\.redo|\.spill)$/;

/**
 * @param dataDir DATA_DIR, of which only what this program makes is looked at
 * @param captureDb the capture database, which may lie elsewhere
 * @returns null when others may use nothing, or where the system has no such rights
 */
export function findLoosePlaces(dataDir: string, captureDb: string): LoosePlaces | null {
  if (process.platform === 'win32') return null;
  const found: LoosePlaces = { count: 0, is_cut: false, first: '' };
  const look = (path: string): boolean => {
    if (!isOpen(path)) return true;
    if (found.count === LOOSE_PLACES_MAX) {
      found.is_cut = true;
      return false;
    }
    if (found.count++ === 0) found.first = path;
    return true;
  };
  const walk = (folder: string, isOurs: (entry: Dirent) => boolean): boolean => {
    for (const entry of list(folder)) {
      // A link is not followed: its target may belong to anything.
      if (entry.isSymbolicLink() || !isOurs(entry)) continue;
      const path = join(folder, entry.name);
      if (!look(path)) return false;
      // A closed folder protects what is in it. So a million attachments in one are not checked.
      if (entry.isDirectory() && isOpen(path) && !walk(path, () => true)) return false;
    }
    return true;
  };
  const isOfData = (entry: Dirent) => (entry.isDirectory() ? FOLDERS : FILES).test(entry.name);
  const stem = basename(captureDb).replace(/\.[^.]*$/, '');
  const isOfCapture = (entry: Dirent) => entry.name.startsWith(`${stem}.`);
  if (look(dataDir) && walk(dataDir, isOfData) && dirname(captureDb) !== dataDir)
    walk(dirname(captureDb), isOfCapture);
  return found.count === 0 ? null : found;
}

/** Whether others may use it; false where there is nothing. */
function isOpen(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat !== undefined && (stat.mode & OTHERS) !== 0;
}

function list(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}
