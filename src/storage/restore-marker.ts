/**
 * The marker of a restore that is not complete. It stands beside each database from before the first file is placed until
 * after the last one is checked, and holds the names of all files, so that the next restore can remove what is there. Until
 * then the service and all commands refuse these databases. Any thread.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { syncFolder } from '../std/folder.ts';

const FORMAT = 'understudy_restore_v1';

/** What is being restored, and where. The file list is checked by its reader. */
interface RestoreMarker {
  format: typeof FORMAT;
  data_dir: string;
  capture_db: string;
  files: { name: string; kind: string }[];
}

/** Of a database, or of a file that was sealed from it. */
function markerPath(db: string): string {
  const extension = extname(db);
  const stem = db.slice(0, db.length - extension.length);
  return `${stem.replace(/\.\d+-\d+(?:\.sealing)?$/, '')}.restoring`;
}

/** The first one is looked at before the others, and removed last. */
function markerPaths({ data_dir, capture_db }: Pick<RestoreMarker, 'data_dir' | 'capture_db'>): string[] {
  return [...new Set([join(data_dir, 'main.mdb'), join(data_dir, 'runs.mdb'), capture_db].map(markerPath))];
}

/**
 * Refuses a database of which a restore placed some files and not all.
 * @param db a database, whether it exists or not
 * @throws Error of one line; its `code` marks it as no fault of ours
 */
export function refuseHalfRestored(db: string): void {
  const path = markerPath(db);
  if (!existsSync(path)) return;
  const words =
    `a restore into ${dirname(db)} is not complete (${path}): run understudy restore again, which begins anew, ` +
    'or wait for the one that is running';
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

/** Removes the markers: all files are there, or none of them. */
export function removeMarkers(place: Pick<RestoreMarker, 'data_dir' | 'capture_db'>): void {
  for (const path of markerPaths(place).reverse()) {
    rmSync(path, { force: true });
    syncFolder(dirname(path));
  }
}

/**
 * @returns what the marker holds, unchecked but for its format; null without one
 * @throws SyntaxError or Error for one that cannot be read
 */
export function readMarker(place: Pick<RestoreMarker, 'data_dir' | 'capture_db'>): RestoreMarker | null {
  const path = markerPaths(place).find((candidate) => existsSync(candidate));
  if (path === undefined) return null;
  const marker = JSON.parse(readFileSync(path, 'utf8')) as RestoreMarker;
  if (marker?.format !== FORMAT) throw new Error('another format');
  return marker;
}
