/**
 * Finds folders and files of this program that other users of the machine can access, for example after an earlier
 * version or a careless copy. It changes nothing, because a folder may be shared on purpose. Main thread, at the
 * start.
 */
import { type Dirent, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** The search stops after this many folders and files that other users can access. The message names one of them. */
const LOOSE_PLACES_MAX = 1_000;

/** The folders and files that other users can access. */
interface LoosePlaces {
  count: number;
  /** Whether the search stopped at the limit, so that there may be more. */
  is_cut: boolean;
  /** The first place that was found. */
  first: string;
}

/** All permissions of the group and of others. */
const OTHERS = 0o077;
/** Folders in DATA_DIR whose whole content belongs to this program. */
const FOLDERS = /^(?:secrets|pattern-graphs|demo|.+\.mdb\.(?:files|raw))$/;
const FILES = /(?:\.mdb(?:-lock)?|\.redo|\.spill)$/;

/**
 * Searches for folders and files that other users can access.
 * @param dataDir DATA_DIR; only what this program creates is checked
 * @param captureDb the capture database, which may be elsewhere
 * @returns null if other users have no access, or if the system has no such permissions
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
      // Links are not followed, because a target may belong to another program.
      if (entry.isSymbolicLink() || !isOurs(entry)) continue;
      const path = join(folder, entry.name);
      if (!look(path)) return false;
      // Only open folders are searched, because other users cannot reach the content of closed folders.
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

/** Whether other users have access; false if it does not exist. */
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
