/**
 * The marker of an incomplete restore. It is written beside each database before the first file is copied, and removed
 * after the last file is checked. It lists all files, so that the next restore can remove them. While it exists, the
 * service and all commands refuse these databases. Any thread.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { syncFolder } from '../std/folder.ts';

const FORMAT = 'understudy_restore_v1';

/**
 * The files of the restored backup, and its destination. `readMarker` checks only `format`, so check `files` before
 * use.
 */
interface RestoreMarker {
  format: typeof FORMAT;
  data_dir: string;
  capture_db: string;
  files: { name: string; kind: string }[];
}

/** Returns the path of the marker for a database, or for a file that was sealed from it. */
function markerPath(db: string): string {
  const extension = extname(db);
  const stem = db.slice(0, db.length - extension.length);
  return `${stem.replace(/\.\d+-\d+(?:\.sealing)?$/, '')}.restoring`;
}

/** Returns the paths of all markers. The first is checked first, and removed last. */
function markerPaths({ data_dir, capture_db }: Pick<RestoreMarker, 'data_dir' | 'capture_db'>): string[] {
  return [...new Set([join(data_dir, 'main.mdb'), join(data_dir, 'runs.mdb'), capture_db].map(markerPath))];
}

/**
 * Refuses a database that an interrupted restore left incomplete.
 * @param db a database, whether it exists or not
 * @throws Error with a one-line message; its `code` marks it as an expected error
 */
export function refuseHalfRestored(db: string): void {
  const path = markerPath(db);
  if (!existsSync(path)) return;
  const words =
    `a restore into ${dirname(db)} is not complete (${path}): run understudy restore again, which starts over, ` +
    'or wait for the restore that is running';
  throw Object.assign(new Error(words), { code: 'ESTORES' });
}

/** Marks the databases. The markers are on the disk when this returns. */
export function writeMarkers(restore: Omit<RestoreMarker, 'format'>): void {
  const text = `${JSON.stringify({ format: FORMAT, ...restore } satisfies RestoreMarker)}\n`;
  for (const path of markerPaths(restore)) {
    writeFileSync(path, text, { mode: 0o600, flush: true });
    syncFolder(dirname(path));
  }
}

/** Removes the markers. Call it when all files are in place, or all were removed. */
export function removeMarkers(place: Pick<RestoreMarker, 'data_dir' | 'capture_db'>): void {
  for (const path of markerPaths(place).reverse()) {
    rmSync(path, { force: true });
    syncFolder(dirname(path));
  }
}

/**
 * Reads the first marker that exists.
 * @returns the content of the marker, of which only the format is checked; null if there is no marker
 * @throws SyntaxError or Error for a marker that is not readable
 */
export function readMarker(place: Pick<RestoreMarker, 'data_dir' | 'capture_db'>): RestoreMarker | null {
  const path = markerPaths(place).find((candidate) => existsSync(candidate));
  if (path === undefined) return null;
  const marker = JSON.parse(readFileSync(path, 'utf8')) as RestoreMarker;
  if (marker?.format !== FORMAT) throw new Error('another format');
  return marker;
}
