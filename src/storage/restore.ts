/**
 * Restores a backup into DATA_DIR and reads it back. A backup may come from an untrusted source and may be damaged,
 * so each name, path and file is checked, and a failed restore leaves nothing behind. Command line.
 */
import { chmodSync, constants, copyFileSync, existsSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isThere } from '../std/file-place.ts';
import { makeFolder, syncFolder } from '../std/folder.ts';
import { syncPath } from '../std/synced-path.ts';
import type { BackupProgress } from './backup.ts';
import { countRows, digestFile } from './backup-copy.ts';
import {
  BackupError,
  type BackupManifest,
  type BackupSource,
  DATABASES,
  type FileEntry,
  fileEntries,
  findBackedUp,
  placeOf,
  readManifest,
} from './backup-manifest.ts';
import { checkFileHead, FileHeadError } from './lmdb/file-head.ts';
import { databasePaths } from './lmdb/stores.ts';
import { planPath } from './plan-file.ts';
import { readMarker, removeMarkers, writeMarkers } from './restore-marker.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/**
 * Restores a backup to a place where the service can start from it, and reads it back. No other restore can run, and no
 * service can start, at the same time. Files of an earlier interrupted restore into the same place are removed first.
 * @param into a DATA_DIR without databases, and the path of the capture database
 * @throws BackupError if the backup is incomplete or the destination contains data; a file system error
 */
export async function restoreBackup(
  source: string,
  into: BackupSource,
  progress: BackupProgress,
): Promise<BackupManifest> {
  const manifest = readManifest(source);
  const made: string[] = [];
  try {
    for (const folder of [into.data_dir, dirname(into.capture_db)]) makeOwn(folder, made);
    await whileClaimed(into, async () => {
      removeRemains(into);
      await placeFiles(manifest, source, into, made, progress);
    });
  } catch (thrown) {
    removeFolders(made);
    throw thrown;
  }
  return manifest;
}

/**
 * Removes the files of a restore that a signal interrupted.
 * @throws BackupError while another restore runs; a file system error
 */
export async function undoRestore(into: BackupSource): Promise<void> {
  if (!isThere(into.data_dir)) return;
  await whileClaimed(into, async () => removeRemains(into));
}

async function whileClaimed(into: BackupSource, work: () => Promise<void>): Promise<void> {
  const claims: WriterClaim[] = [];
  try {
    for (const path of [databasePaths(into.data_dir).main, into.capture_db])
      claims.push(await claimWriter(path, { patience_ms: 0 }));
    await work();
  } catch (thrown) {
    if (thrown instanceof WriterClaimedError) throw new BackupError(thrown.message);
    throw thrown;
  } finally {
    for (const claim of claims) await claim.release();
  }
}

/**
 * Removes the files that the marker of an earlier restore lists, and the marker.
 * @throws BackupError for a marker that this version did not write, or that contains other paths
 */
function removeRemains(into: BackupSource): void {
  let files: Pick<FileEntry, 'name' | 'kind'>[];
  try {
    const marker = readMarker(into);
    if (marker === null) return;
    if (marker.data_dir !== into.data_dir || marker.capture_db !== into.capture_db)
      throw new BackupError(
        `a restore into ${marker.data_dir} with the capture database ${marker.capture_db} is not complete: ` +
          'first run that restore again, with the same DATA_DIR and --db',
      );
    files = fileEntries.parse(marker.files.map((file) => ({ ...file, bytes: 0 })));
  } catch (thrown) {
    if (thrown instanceof BackupError) throw thrown;
    throw new BackupError(
      `the marker of an earlier restore into ${into.data_dir} cannot be read: choose a new DATA_DIR`,
    );
  }
  removeFiles(files.map((file) => placeOf(file, into)));
  removeMarkers(into);
}

/** Removes the files, and what LMDB created beside them. */
function removeFiles(paths: readonly string[]): void {
  for (const path of paths) {
    rmSync(path, { force: true });
    rmSync(`${path}-lock`, { force: true });
  }
  for (const folder of new Set(paths.map((path) => dirname(path)))) if (isThere(folder)) syncFolder(folder);
}

/** Copies and checks the files of a backup. Leaves no files behind if it throws. */
async function placeFiles(
  manifest: BackupManifest,
  source: string,
  into: BackupSource,
  made: string[],
  progress: BackupProgress,
): Promise<void> {
  refusePresent(manifest, into);
  // Checked before the first write, so that a backup with missing files is refused at once.
  const paths = manifest.files.map((file) => findBackedUp(source, file));
  const { data_dir, capture_db } = into;
  const placed: string[] = [];
  writeMarkers({ data_dir, capture_db, files: manifest.files.map(({ name, kind }) => ({ name, kind })) });
  try {
    for (const [index, file] of manifest.files.entries()) {
      progress(file.name, index, manifest.files.length);
      const to = placeOf(file, into);
      makeOwn(dirname(to), made);
      copyNew(paths[index]!, to, placed);
      chmodSync(to, file.kind === 'sealed' ? 0o400 : 0o600);
      syncPath(to);
      await verifyFile(to, file);
    }
    for (const folder of new Set(placed.map((path) => dirname(path)))) syncFolder(folder);
    for (const folder of made) syncFolder(dirname(folder));
  } catch (thrown) {
    removeFiles(placed);
    removeMarkers(into);
    throw thrown;
  }
  removeMarkers(into);
}

/**
 * Refuses a restore over existing files.
 * @throws BackupError if a database, a file at the path of a file of the backup, or a plan exists. A plan would let the
 *   next start finish a change of the data key over the restored files.
 */
function refusePresent(manifest: BackupManifest, into: BackupSource): void {
  const places = [
    ...DATABASES.map((name) => join(into.data_dir, name)),
    into.capture_db,
    planPath(into.data_dir),
    ...manifest.files.map((file) => placeOf(file, into)),
  ];
  const present = places.find(isThere);
  if (present !== undefined) throw new BackupError(describePresent(present));
}

/**
 * Copies a file to a path where no file exists.
 * @param placed receives the path of the copy, even if the copy is incomplete
 * @throws BackupError if a file exists at the path, which stays unchanged; a file system error
 */
function copyNew(from: string, to: string, placed: string[]): void {
  try {
    copyFileSync(from, to, constants.COPYFILE_EXCL);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'EEXIST') throw new BackupError(describePresent(to));
    placed.push(to);
    throw thrown;
  }
  placed.push(to);
}

function describePresent(path: string): string {
  return (
    `${path} exists already, and a restore replaces no files: choose a new DATA_DIR, ` +
    'or another --db if the file belongs to the capture database'
  );
}

const MAPPED: ReadonlySet<FileEntry['kind']> = new Set(['database', 'capture', 'sealed']);

async function verifyFile(path: string, { name, kind, rows, sha256 }: FileEntry): Promise<void> {
  if (digestFile(path) !== sha256) throw new BackupError(`${name} differs from what was backed up`);
  if (!MAPPED.has(kind)) return;
  try {
    // LMDB would crash the process if the file is not a database.
    checkFileHead(path);
  } catch (thrown) {
    if (!(thrown instanceof FileHeadError)) throw thrown;
    throw new BackupError(`${name} in the backup is not a database, or is damaged (${thrown.why})`);
  }
  // Reads every row. The counts are not compared, because the digest proves more, and an earlier version may have
  // counted wrong.
  if (rows !== undefined) await countRows(path);
}

/** Creates a folder if it is missing. @param made receives the folder and its parents, if they were created */
function makeOwn(folder: string, made: string[]): void {
  const top = makeFolder(folder, 0o700);
  if (top === undefined) return;
  for (let at = folder; at.length >= top.length; at = dirname(at)) made.push(at);
}

/** Removes the created folders that are empty. */
function removeFolders(made: readonly string[]): void {
  const deepestFirst = [...made].sort((a, b) => b.length - a.length);
  for (const folder of deepestFirst)
    if (existsSync(folder) && readdirSync(folder).length === 0) rmdirSync(folder);
}
