/**
 * A copy of everything in DATA_DIR, taken while the process writes, and its way back. Each database is copied as of one
 * moment by LMDB itself; what the copy holds is counted and checked by reading it. Command line.
 *
 * A backup is a folder: `manifest.json`, one file a database, sealed capture files, their attachments, `secrets/`.
 * Sealed files and attachments never change, so they are copied as files.
 */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { z } from 'zod';
import { countOf } from '../std/count-of.ts';
import { openDataKey } from '../std/data-key.ts';
import { isThere, namePlace } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { isDamage } from './capture/damage.ts';
import { rawFolder } from './capture/layout.ts';
import { repackAll } from './capture/repacking.ts';
import { checkSealing } from './lmdb/sealed-table.ts';
import { checkDatabase, databasePaths, findRedoLogs } from './lmdb/stores.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** A backup that cannot be taken or cannot be believed. One line for the person. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
}

export interface BackupSource {
  /** DATA_DIR */
  data_dir: string;
  /** The capture database, which may lie elsewhere. */
  capture_db: string;
  /** Under which all of it is, and stays; null or left out: under none. */
  data_key?: Uint8Array | null;
}

const MANIFEST = 'manifest.json';
const FORMAT = 'understudy_backup_v1';
/** Databases of DATA_DIR by their names there. */
const DATABASES = ['main.mdb', 'runs.mdb'] as const;
const CAPTURE = 'capture.mdb';
const MAX_NAMED = 128;
const DIGEST_PIECE_BYTES = 1 << 20;

const fileEntry = z.object({
  /** Relative to the backup. */
  name: z.string().regex(/^[^/\\]+(\/[^/\\]+)?$/),
  kind: z.enum(['database', 'redo', 'capture', 'sealed', 'attachment', 'secret']),
  bytes: z.number().int().min(0),
  /** Of a database: rows of each named table. */
  rows: z.record(z.string(), z.number().int()).optional(),
  sha256: z.string().optional(),
});
const manifestSchema = z.object({
  format: z.literal(FORMAT),
  created_at: z.string(),
  files: z.array(fileEntry),
});

export type BackupManifest = z.output<typeof manifestSchema>;
type FileEntry = BackupManifest['files'][number];

/** Told of each file as it is begun. */
export type BackupProgress = (name: string, done: number, of: number) => void;

/**
 * Copies everything into a new folder.
 * @param target must not exist; it appears only when the backup is whole
 * @throws BackupError when there is nothing to copy or the target is there; Error of the file system
 */
export async function writeBackup(
  { data_dir, capture_db, data_key = null }: BackupSource,
  target: string,
  progress: BackupProgress,
  nowMs: number,
): Promise<BackupManifest> {
  if (isThere(target)) throw new BackupError(`${target} is there already`);
  // Throws where it cannot be looked into, which is not the same as empty.
  const databases = findDatabases(data_dir, capture_db);
  if (databases.length === 0) throw new BackupError(`${data_dir} holds nothing to copy`);
  const partial = `${target}.partial`;
  rmSync(partial, { recursive: true, force: true });
  // The copy holds what DATA_DIR keeps to itself.
  makeFolder(partial, 0o700);
  try {
    const files: FileEntry[] = [];
    // Before the database: what it has by then is left out of the log when they are opened.
    for (const { path, name, kind } of findRedo(data_dir))
      files.push({ name, kind, ...copyPlain(path, join(partial, name)) });
    for (const [index, { path, name, kind }] of databases.entries()) {
      progress(name, index, databases.length);
      try {
        const copied = await copyUnrotated(path, join(partial, name), kind, capture_db, data_key);
        files.push({ name, kind, ...copied });
      } catch (thrown) {
        throw isDamage(thrown, true) ? explainDamage(path, thrown as Error) : thrown;
      }
    }
    // After the databases: what their rows point at is there by now.
    const plain = findFiles(data_dir, capture_db);
    for (const [index, { path, name, kind }] of plain.entries()) {
      progress(name, databases.length + index, databases.length + plain.length);
      const copy = join(partial, name);
      makeFolder(dirname(copy), 0o700);
      files.push({ name, kind, ...copyPlain(path, copy) });
    }
    const manifest: BackupManifest = { format: FORMAT, created_at: new Date(nowMs).toISOString(), files };
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

/**
 * Puts a backup where a process can start from it, and reads it back. No other restore and no start comes between.
 * @param into a DATA_DIR without databases, and the capture database's place
 * @throws BackupError when the backup is not whole, or when data is in the way
 */
export async function restoreBackup(
  source: string,
  into: BackupSource,
  progress: BackupProgress,
): Promise<BackupManifest> {
  const manifest = readManifest(source);
  const claims: WriterClaim[] = [];
  try {
    for (const path of [databasePaths(into.data_dir).main, into.capture_db])
      claims.push(await claimWriter(path, { patience_ms: 0 }));
    await placeFiles(manifest, source, into, progress);
  } catch (thrown) {
    if (thrown instanceof WriterClaimedError) throw new BackupError(thrown.message);
    throw thrown;
  } finally {
    for (const claim of claims) await claim.release();
  }
  return manifest;
}

/** Leaves nothing behind when it throws. */
async function placeFiles(
  manifest: BackupManifest,
  source: string,
  { data_dir, capture_db }: BackupSource,
  progress: BackupProgress,
): Promise<void> {
  const present = [...DATABASES.map((name) => join(data_dir, name)), capture_db].filter(isThere);
  if (present.length > 0)
    throw new BackupError(`${present[0]} is there already; restore into an empty DATA_DIR`);
  const placed: string[] = [];
  try {
    for (const [index, file] of manifest.files.entries()) {
      progress(file.name, index, manifest.files.length);
      const from = join(source, file.name);
      if (!isThere(from)) throw new BackupError(`${file.name} is missing from the backup`);
      const to = placeOf(file, data_dir, capture_db);
      makeFolder(dirname(to), 0o700);
      copyNew(from, to, placed);
      chmodSync(to, file.kind === 'sealed' ? 0o400 : 0o600);
      syncPath(to);
      await verifyFile(to, file);
    }
  } catch (thrown) {
    // Half of a backup must not be started from.
    for (const path of placed) rmSync(path, { force: true });
    throw thrown;
  }
}

/**
 * @param placed gets the copy, also a part of one
 * @throws BackupError when something is there, which stays as it is: a command that takes no claim may have made it
 */
function copyNew(from: string, to: string, placed: string[]): void {
  try {
    copyFileSync(from, to, constants.COPYFILE_EXCL);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'EEXIST')
      throw new BackupError(`${to} is there already; restore into an empty DATA_DIR`);
    placed.push(to);
    throw thrown;
  }
  placed.push(to);
}

/** @throws BackupError */
function readManifest(source: string): BackupManifest {
  let text: string;
  try {
    // Of a named pipe one would wait for somebody to write to it.
    if (!statSync(join(source, MANIFEST)).isFile()) throw new Error('not a file');
    text = readFileSync(join(source, MANIFEST), 'utf8');
  } catch (thrown) {
    // Its words say what is wrong with which part of the path.
    if (!['ENOENT', undefined].includes((thrown as NodeJS.ErrnoException).code)) throw thrown;
    throw new BackupError(`${source} is not a backup: it has no ${MANIFEST}`);
  }
  try {
    const manifest = manifestSchema.parse(JSON.parse(text));
    const strange = manifest.files.find(({ name }) => name.split('/').some((part) => /^\.+$/.test(part)));
    if (strange !== undefined) throw new Error(strange.name);
    return manifest;
  } catch {
    throw new BackupError(`${source} is not a backup that this version can read`);
  }
}

interface Source {
  path: string;
  name: string;
  kind: FileEntry['kind'];
}

function findDatabases(dataDir: string, captureDb: string): Source[] {
  const sources: Source[] = [];
  for (const name of DATABASES) {
    const path = join(dataDir, name);
    if (isThere(path)) sources.push({ path, name, kind: 'database' });
  }
  if (isThere(captureDb)) sources.push({ path: captureDb, name: CAPTURE, kind: 'capture' });
  return sources;
}

/** What was promised and may not be in the database, where a process was killed or is at work. */
function findRedo(dataDir: string): Source[] {
  return findRedoLogs(databasePaths(dataDir)).map((path) => ({ path, name: basename(path), kind: 'redo' }));
}

function findSealed(captureDb: string): Source[] {
  const stem = basename(captureDb).replace(/\.[^.]*$/, '');
  const sealed = new RegExp(`^${escapeRegExp(stem)}\\.(\\d+-\\d+\\.[^.]+)$`);
  return listFolder(dirname(captureDb)).flatMap((name) => {
    const match = sealed.exec(name);
    const path = join(dirname(captureDb), name);
    return match === null ? [] : [{ path, name: `capture.${match[1]}`, kind: 'sealed' as const }];
  });
}

function findFiles(dataDir: string, captureDb: string): Source[] {
  const sources: Source[] = [];
  if (isThere(captureDb)) {
    sources.push(...findSealed(captureDb));
    for (const name of listFolder(`${captureDb}.files`)) {
      if (!/^[0-9a-f]{64}$/.test(name)) continue;
      sources.push({
        path: join(`${captureDb}.files`, name),
        name: `attachments/${name}`,
        kind: 'attachment',
      });
    }
  }
  for (const name of listFolder(join(dataDir, 'secrets')))
    sources.push({ path: join(dataDir, 'secrets', name), name: `secrets/${name}`, kind: 'secret' });
  return sources;
}

function placeOf({ name, kind }: FileEntry, dataDir: string, captureDb: string): string {
  switch (kind) {
    case 'database':
    case 'redo':
    case 'secret':
      return join(dataDir, name);
    case 'capture':
      return captureDb;
    case 'sealed': {
      const stem = basename(captureDb).replace(/\.[^.]*$/, '');
      return join(dirname(captureDb), `${stem}${name.slice('capture'.length)}`);
    }
    case 'attachment':
      return join(`${captureDb}.files`, basename(name));
  }
}

/** Attempts at a capture database that is rotated while it is copied. */
const ATTEMPTS = 5;

function explainDamage(path: string, thrown: Error): BackupError {
  const message = thrown.message.replace(/^Error: /, '');
  const why = message.startsWith(path) ? message : `${path}: damaged (${message})`;
  return new BackupError(`${why}. Take it from an earlier backup`);
}

/**
 * A capture database that was sealed meanwhile would be in the backup twice, as itself and as a sealed file: then it is
 * copied again.
 */
async function copyUnrotated(
  path: string,
  copy: string,
  kind: FileEntry['kind'],
  captureDb: string,
  dataKey: Uint8Array | null,
): Promise<Pick<FileEntry, 'bytes' | 'rows' | 'sha256'>> {
  if (kind !== 'capture') return copyDatabase(path, copy, dataKey);
  const sealedNow = () => findSealed(captureDb).length;
  for (let attempt = 1; ; attempt++) {
    const before = sealedNow();
    // What waits in raw files is packed into the copy, which is whole without them; one that was packed at the source
    // meanwhile is in the next copy.
    let unread = 0;
    const copied = await copyDatabase(path, copy, dataKey, async () => {
      if (!isThere(rawFolder(path))) return;
      unread = await repackAll(copy, rawFolder(path), undefined, dataKey);
      rmSync(`${copy}-lock`, { force: true });
    });
    if (sealedNow() === before && unread === 0) return copied;
    if (attempt === ATTEMPTS) {
      throw new BackupError(
        unread > 0
          ? `${countOf(unread, 'block')} of the capture database cannot be read from ${rawFolder(path)}`
          : 'the capture database is rotated all the time; try again',
      );
    }
    rmSync(copy);
  }
}

/**
 * As of one moment, while others write; compacted.
 * @param finish called before the copy is counted
 */
async function copyDatabase(
  path: string,
  copy: string,
  dataKey: Uint8Array | null,
  finish: (() => Promise<void>) | null = null,
): Promise<Pick<FileEntry, 'bytes' | 'rows' | 'sha256'>> {
  checkDatabase(path);
  const root = openForReading(path);
  try {
    checkSealing(root, path, openDataKey(dataKey));
    await root.backup(copy, true);
  } finally {
    await root.close();
  }
  await finish?.();
  syncPath(copy);
  const rows = await countRows(copy);
  return { bytes: statSync(copy).size, rows, sha256: digestFile(copy) };
}

function copyPlain(path: string, copy: string): Pick<FileEntry, 'bytes' | 'sha256'> {
  copyFileSync(path, copy);
  // A copy takes over the rights, which may be those of an earlier version.
  chmodSync(copy, 0o600);
  syncPath(copy);
  return { bytes: statSync(copy).size, sha256: digestFile(copy) };
}

async function verifyFile(path: string, { name, rows, sha256 }: FileEntry): Promise<void> {
  if (digestFile(path) !== sha256) throw new BackupError(`${name} is not what was backed up`);
  // To read all of it. The numbers prove no more than the digest, and an earlier version may have counted too few.
  if (rows !== undefined) await countRows(path);
}

/** Reads every entry of every table. @throws BackupError when one cannot be read */
async function countRows(path: string): Promise<Record<string, number>> {
  try {
    const root = openForReading(path);
    try {
      const rows: Record<string, number> = {};
      for (const name of tableNames(root)) {
        let count = 0;
        for (const entry of root.openDB<Buffer, Buffer>({ name, ...BYTES }).getRange(WHOLE)) {
          if (entry.value.length >= 0) count++;
        }
        rows[name] = count;
      }
      return rows;
    } finally {
      await root.close();
      rmSync(`${path}-lock`, { force: true });
    }
  } catch (thrown) {
    throw new BackupError(`${basename(path)} cannot be read: ${(thrown as Error).message}`);
  }
}

/** Of a table whose keys are numbers, too: without it lmdb begins at whatever number its buffer held before. */
const WHOLE = { start: Buffer.alloc(0) };
const BYTES = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const;

function openForReading(path: string): RootDatabase<Buffer, Buffer> {
  return open<Buffer, Buffer>({ path, noSubdir: true, readOnly: true, maxDbs: MAX_NAMED, ...BYTES });
}

/** LMDB keeps the names of its tables as keys of the unnamed one. */
function tableNames(root: RootDatabase<Buffer, Buffer>): string[] {
  return [...root.getKeys({})].map((key) => key.toString().replace(/\0$/, ''));
}

function listFolder(path: string): string[] {
  return isThere(path) ? readdirSync(path).sort() : [];
}

/** In pieces: a sealed capture file may be larger than memory. */
function digestFile(path: string): string {
  const hash = createHash('sha256');
  const piece = Buffer.allocUnsafe(DIGEST_PIECE_BYTES);
  const file = openSync(path, 'r');
  try {
    for (let read = readSync(file, piece); read > 0; read = readSync(file, piece)) {
      hash.update(piece.subarray(0, read));
    }
  } finally {
    closeSync(file);
  }
  return hash.digest('hex');
}

function syncPath(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } catch (thrown) {
    throw namePlace(thrown, path);
  } finally {
    closeSync(file);
  }
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
