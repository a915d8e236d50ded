/**
 * The files of the full-text index beside a capture database: `<db>.text/<first id>-<last id>.seg`. Any thread.
 *
 * A segment contains only exchanges of one capture file, so both are removed together. If segments overlap, a
 * merge was interrupted, and the larger segment is valid.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { syncPath } from '../../std/synced-path.ts';

const NAME = /^(\d+)-(\d+)\.seg$/;

/** A segment's file, and the exchanges that it covers. */
export interface SegmentFile {
  path: string;
  first_id: number;
  last_id: number;
}

export function textIndexFolder(db: string): string {
  return `${db}.text`;
}

export function segmentPath(db: string, firstId: number, lastId: number): string {
  return join(textIndexFolder(db), `${firstId}-${lastId}.seg`);
}

/** Returns the path of the file with which a reader reports a damaged segment to the writer. */
export function damagePath(path: string): string {
  return `${path}.damaged`;
}

/** Lists the segments in the order of ids, and separately the segments that a larger segment covers. */
export function listSegments(db: string): { segments: SegmentFile[]; covered: SegmentFile[] } {
  const all: SegmentFile[] = [];
  for (const name of listNames(db)) {
    const range = NAME.exec(name);
    if (range === null) continue;
    const [first_id, last_id] = [Number(range[1]), Number(range[2])];
    all.push({ path: join(textIndexFolder(db), name), first_id, last_id });
  }
  all.sort((a, b) => a.first_id - b.first_id || b.last_id - a.last_id);
  const segments: SegmentFile[] = [];
  const covered: SegmentFile[] = [];
  for (const file of all) {
    const isCovered = file.last_id <= (segments.at(-1)?.last_id ?? 0);
    (isCovered ? covered : segments).push(file);
  }
  return { segments, covered };
}

/** Lists the names of all files in the index's folder; an empty list if the folder cannot be read. */
export function listNames(db: string): string[] {
  try {
    return readdirSync(textIndexFolder(db));
  } catch {
    return [];
  }
}

/** Removes segments, and makes the removal survive a power failure. @throws a file system error */
export function removeSegments(db: string, files: readonly SegmentFile[]): void {
  if (files.length === 0) return;
  for (const { path } of files) {
    rmSync(path, { force: true });
    rmSync(damagePath(path), { force: true });
  }
  const folder = textIndexFolder(db);
  if (existsSync(folder)) syncPath(folder);
}

/** Whether a file's name is that of a segment, or of a file that belongs to a segment. */
export function isSegmentName(name: string): boolean {
  return /^\d+-\d+\.seg(\.part|\.damaged)?$/.test(name);
}
