/**
 * Copies the databases, captures, attachments and secrets of DATA_DIR while the process writes (restore.ts restores
 * them). LMDB copies a snapshot of each database. Then the copy of each database is read, to check it and to count its
 * rows. Command line.
 * A backup is a folder: `manifest.json`, one file for each database, sealed capture files, their attachments,
 * `secrets/`. Files that do not change are copied as files. backup-captures.ts copies the capture database.
 */
import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isThere, namePlace } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { syncPath } from '../std/synced-path.ts';
import { CaptureCopy } from './backup-captures.ts';
import { copyDatabase, copyPlain } from './backup-copy.ts';
import {
  BACKUP_FORMAT,
  BackupError,
  type BackupManifest,
  type BackupSource,
  CAPTURE,
  CAPTURE_KEYS,
  DATABASES,
  type FileEntry,
  isBackupName,
  MANIFEST,
} from './backup-manifest.ts';
import { keysPath } from './capture/capture-keys.ts';
import { isDamage } from './capture/damage.ts';
import { attachmentsFolder, listSealed } from './capture/layout.ts';
import { databasePaths, findRedoLogs } from './lmdb/stores.ts';
import { refuseHalfRestored } from './restore-marker.ts';

/** Called when the copy of each file begins. */
export type BackupProgress = (name: string, done: number, of: number) => void;

/**
 * Writes a backup into a new folder.
 * @param target must not exist; it appears only when the backup is complete
 * @throws BackupError if there is nothing to copy, the target exists or a file is damaged; Error with a one-line
 *   message if a restore into the folder is not complete; a file system error
 */
export async function writeBackup(
  { data_dir, capture_db, data_key = null }: BackupSource,
  target: string,
  progress: BackupProgress,
  nowMs: number,
): Promise<BackupManifest> {
  if (isThere(target)) throw new BackupError(`${target} exists already: name a new folder`);
  for (const path of [join(data_dir, DATABASES[0]), capture_db]) refuseHalfRestored(path);
  // Throws if the folder cannot be read.
  const databases = findDatabases(data_dir);
  const hasCaptures = isThere(capture_db) || listSealed(capture_db).length > 0;
  if (databases.length === 0 && !hasCaptures)
    throw new BackupError(`${data_dir} holds nothing to copy: set DATA_DIR to the folder of the service`);
  const partial = `${target}.partial`;
  rmSync(partial, { recursive: true, force: true });
  // The backup gets the same restrictive permissions as DATA_DIR.
  makeFolder(partial, 0o700);
  try {
    const files: FileEntry[] = [];
    // The redo log is copied before the database, because a restore skips records that the database already contains,
    // but cannot make up for missing records.
    for (const { path, name, kind } of findRedo(data_dir))
      files.push({ name, kind, ...copyPlain(path, join(partial, name)) });
    for (const [index, { path, name, kind }] of databases.entries()) {
      progress(name, index, databases.length);
      const copied = await explainingDamage(path, copyDatabase(path, join(partial, name), data_key));
      files.push({ name, kind, ...copied });
    }
    if (hasCaptures) {
      // The keys are needed to pack blocks into the copies. They are copied again afterwards, because they may change.
      copyKeys(capture_db, partial);
      const copy = new CaptureCopy(capture_db, data_key, partial);
      progress(CAPTURE, 0, 1);
      const { entry, others } = await explainingDamage(capture_db, copy.copyLive());
      if (entry !== null) files.push(entry);
      for (const [index, other] of others.entries()) {
        progress(basename(other.path), index, others.length);
        const copied = await explainingDamage(other.path, copy.copyOther(other));
        if (copied !== null) files.push(copied);
      }
    }
    files.push(...copyKeys(capture_db, partial));
    // Copied after the databases, so that every file to which a copied row refers is copied.
    const plain = findFiles(data_dir, capture_db);
    for (const [index, { path, name, kind }] of plain.entries()) {
      progress(name, index, plain.length);
      const copy = join(partial, name);
      makeFolder(dirname(copy), 0o700);
      files.push({ name, kind, ...copyPlain(path, copy) });
    }
    const manifest: BackupManifest = {
      format: BACKUP_FORMAT,
      created_at: new Date(nowMs).toISOString(),
      files,
    };
    writeFileSync(join(partial, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 });
    syncPath(join(partial, MANIFEST));
    renameSync(partial, target);
    syncPath(dirname(target));
    return manifest;
  } catch (thrown) {
    rmSync(partial, { recursive: true, force: true });
    throw namePlace(thrown, target);
  }
}

/** Copies the keys of captures, if their data key was changed while the service ran. @returns their entry */
function copyKeys(captureDb: string, folder: string): FileEntry[] {
  const path = keysPath(captureDb);
  if (!isThere(path)) return [];
  return [{ name: CAPTURE_KEYS, kind: 'keys', ...copyPlain(path, join(folder, CAPTURE_KEYS)) }];
}

interface Source {
  path: string;
  name: string;
  kind: FileEntry['kind'];
}

function findDatabases(dataDir: string): Source[] {
  return DATABASES.map((name) => ({ path: join(dataDir, name), name, kind: 'database' as const })).filter(
    ({ path }) => isThere(path),
  );
}

/**
 * Finds the redo logs. They contain acknowledged writes that may be missing in the database if a process is running or
 * was killed.
 */
function findRedo(dataDir: string): Source[] {
  return findRedoLogs(databasePaths(dataDir)).map((path) => ({ path, name: basename(path), kind: 'redo' }));
}

/** Finds the attachments and the secrets. */
function findFiles(dataDir: string, captureDb: string): Source[] {
  const sources: Source[] = [];
  const folder = attachmentsFolder(captureDb);
  for (const entry of listFolder(folder)) {
    const name = `attachments/${entry}`;
    if (isBackupName('attachment', name))
      sources.push({ path: join(folder, entry), name, kind: 'attachment' });
  }
  for (const entry of listFolder(join(dataDir, 'secrets'))) {
    const name = `secrets/${entry}`;
    if (isBackupName('secret', name)) sources.push({ path: join(dataDir, name), name, kind: 'secret' });
  }
  return sources;
}

async function explainingDamage<Value>(path: string, work: Promise<Value>): Promise<Value> {
  try {
    return await work;
  } catch (thrown) {
    throw isDamage(thrown, true) ? explainDamage(path, thrown as Error) : thrown;
  }
}

function explainDamage(path: string, thrown: Error): BackupError {
  const message = thrown.message.replace(/^Error: /, '');
  const why = message.startsWith(path) ? message : `${path}: damaged (${message})`;
  return new BackupError(`${why}. Take the file from an earlier backup`);
}

function listFolder(path: string): string[] {
  return isThere(path) ? readdirSync(path).sort() : [];
}
