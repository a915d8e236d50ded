/**
 * How capture files lie on disk: names, the LMDB environment and its tables, and what a file must look like before it
 * is opened. Used by the capture process, which writes, and by readers on any thread.
 *
 *   capture.mdb                      the live file, one writer, any number of readers
 *   capture.1-5321.mdb               sealed: read-only, compacted, exchanges 1 to 5321
 *   capture.1-5321.sealing.mdb       on its way to being sealed; readable too
 *   capture.damaged-<time>.mdb       set aside because it is damaged (damage.ts)
 *   capture.mdb.last-id              the last id that was given (last-id.ts)
 *   capture.mdb.retention-clock      the clock of the last pass of deletion by age (../retention-clock.ts)
 *   capture.mdb-safe                 the state to which a power cut throws the live file back (lmdb/checkpoint.ts)
 *   capture.mdb.files/<sha256>       attachments, shared by live and sealed files
 *   capture.mdb.text/<ids>.seg       the full-text index (../text-index/segment-files.ts)
 *   capture.mdb.raw/<number>.raw     blocks that came too fast to be packed into the live file at once (raw-files.ts)
 *
 * Tables: `meta` (format, first id, how far the index is), `blocks` (id of the first exchange → a block of
 * exchanges), `pieces` (the rest of large blocks), `facts` (the exchange index, see summary-table.ts),
 * `tails` (id of a turn → what a later turn would need of it, see turn-links.ts), `waiting` (key of a block that is
 * not packed yet → the raw file that it is in).
 */
import { chmodSync, existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { DataKeyError, openDataKey } from '../../std/data-key.ts';
import { namePlace } from '../../std/file-place.ts';
import { Checkpoints, needsRestore, restoreCheckpoint } from '../lmdb/checkpoint.ts';
import { checkFileHead, checkRoom, FileHeadError } from '../lmdb/file-head.ts';
import {
  checkSealing,
  type FileSealing,
  markChecksums,
  openCodec,
  SealedTable,
  type ValueTable,
} from '../lmdb/sealed-table.ts';
import { refuseHalfRestored } from '../restore-marker.ts';

/**
 * Of everything in the file. A reader refuses files with a higher number. 2: blocks may stand in raw files. 3: there also in
 * several pieces. 4: in a file without a key, summaries and tails may have checksums. 5: the last block of summaries may have
 * several rows (summary-table.ts).
 */
export const CAPTURE_FORMAT = 5;

/**
 * For new files; LMDB reads the size from the file. Every commit writes some pages anew, and the file keeps about two
 * dozen of those in circulation: with small pages that is 100 KB. Larger values are cut to fit (codec.ts).
 */
const PAGE_BYTES = 4_096;

type CaptureFileFault = 'missing' | 'not_a_capture' | 'truncated' | 'damaged' | 'newer_format' | 'unreadable';

/** A capture file that cannot be opened or read; `code` says why, the message names the file and what to do. */
export class CaptureFileError extends Error {
  readonly code: CaptureFileFault;
  readonly path: string;

  constructor(code: CaptureFileFault, path: string, why: string, options?: ErrorOptions) {
    super(`${path}: ${why}`, options);
    this.name = 'CaptureFileError';
    this.code = code;
    this.path = path;
  }
}

/**
 * Whatever a reader throws that is no CaptureFileError means that the file is damaged: says so, with the file's name.
 * @throws {CaptureFileError}
 */
export function nameDamage<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof CaptureFileError) throw error;
    const why = `damaged (${(error as Error).message.slice(0, 200)})`;
    throw new CaptureFileError('damaged', path, why, { cause: error });
  }
}

/** The open environment and its tables. */
export interface CaptureEnv {
  root: RootDatabase<Buffer, string>;
  meta: Database<Buffer, string>;
  blocks: Database<Buffer, number>;
  pieces: Database<Buffer, number>;
  facts: ValueTable<number>;
  tails: ValueTable<number>;
  /** null for readers, who have no use for it. */
  waiting: Database<Buffer, number> | null;
  /** What seals blocks, summaries and tails; null: nothing does. */
  sealing: FileSealing | null;
  /** Of a file that is open to write; null for readers, and for a copy that is synced once, at its end. */
  checkpoints: Checkpoints | null;
}

/** A sealed file (or one being sealed) and the ids that it holds. */
export interface SealedFile {
  path: string;
  first_id: number;
  last_id: number;
  sealing: boolean;
}

/**
 * {@link checkFileHead} of a capture file.
 * @throws {CaptureFileError} missing, not_a_capture, truncated, unreadable
 */
function checkCaptureHead(path: string): void {
  try {
    checkFileHead(path);
  } catch (error) {
    if (!(error instanceof FileHeadError)) throw error;
    const code = error.code === 'not_a_database' ? 'not_a_capture' : error.code;
    const why = error.why.replace('database', 'capture database');
    throw new CaptureFileError(code, path, why, { cause: error.cause });
  }
}

function openTables(
  root: RootDatabase<Buffer, string>,
  path: string,
  create: boolean,
  dataKey: Uint8Array | null,
): CaptureEnv {
  const sealing = checkSealing(root, path, openDataKey(dataKey));
  // Blocks have checksums themselves. A file says so for the rest of it when it is made.
  if (create && sealing === null) markChecksums(root);
  const codec = openCodec(root, path, openDataKey(dataKey));
  const table = <K extends string | number>(
    name: string,
    keyEncoding: 'uint32' | null,
  ): Database<Buffer, K> => {
    const options = {
      name,
      encoding: 'binary',
      cache: false,
      ...(keyEncoding === null ? {} : { keyEncoding }),
    } as const;
    // lmdb-js takes `create` here but does not declare it; without it, it would make tables in any database.
    const opened: Database<Buffer, K> | undefined = root.openDB<Buffer, K>(
      create ? options : ({ ...options, create } as typeof options),
    );
    if (opened === undefined) throw makeForeignError(path);
    return opened;
  };
  const sealed = (name: string): ValueTable<number> => {
    const opened = table<number>(name, 'uint32');
    return codec === null ? opened : new SealedTable(opened, name, codec, path);
  };
  return {
    root,
    sealing,
    meta: table<string>('meta', null),
    blocks: table<number>('blocks', 'uint32'),
    pieces: table<number>('pieces', 'uint32'),
    facts: sealed('facts'),
    tails: sealed('tails'),
    waiting: create ? table<number>('waiting', 'uint32') : null,
    checkpoints: null,
  };
}

/** What a file of an earlier format lacks. */
function upgradeFile(env: CaptureEnv, format: number): CaptureEnv {
  const options = { name: 'waiting', encoding: 'binary', cache: false, keyEncoding: 'uint32' } as const;
  const waiting = env.root.openDB<Buffer, number>(options);
  if (format < CAPTURE_FORMAT) env.meta.putSync('format', Buffer.from(String(CAPTURE_FORMAT)));
  return { ...env, waiting };
}

function makeForeignError(path: string, cause?: unknown): CaptureFileError {
  return new CaptureFileError('not_a_capture', path, 'a database, but not of captured exchanges', { cause });
}

const ENV_OPTIONS = {
  noSubdir: true,
  maxDbs: 8,
  encoding: 'binary',
  cache: false,
  overlappingSync: false,
} as const;

/**
 * Makes an empty capture file unless there is one. Made under another name and renamed, so that it is whole or missing.
 * @param firstId id that its first exchange will have
 * @param turns rows for `tails`, from the file before
 * @param dataKey seals what it will hold; null: that stands as it is
 * @throws the storage's error
 */
export async function ensureCaptureFile(
  path: string,
  firstId: number,
  turns: { key: number; value: Buffer }[] = [],
  dataKey: Uint8Array | null = null,
): Promise<void> {
  refuseHalfRestored(path);
  if (existsSync(path)) return;
  const partial = `${path}.new`;
  const removePartial = (): void => {
    rmSync(partial, { force: true });
    rmSync(`${partial}-lock`, { force: true });
  };
  removePartial();
  checkRoom(path);
  try {
    const env = await createCaptureEnv(partial, dataKey);
    const { root } = env;
    try {
      root.transactionSync(() => {
        env.meta.putSync('format', Buffer.from(String(CAPTURE_FORMAT)));
        env.meta.putSync('first_id', Buffer.from(String(firstId)));
        for (const { key, value } of turns) env.tails.putSync(key, value, { append: true });
      });
    } finally {
      await root.close();
    }
    // The lock file of a database that was here before.
    rmSync(`${path}-lock`, { force: true });
    renameSync(partial, path);
  } finally {
    removePartial();
  }
}

/**
 * Makes a file with empty tables, which is no capture file before its `meta` says so.
 * @param dataKey seals what it will hold; null: that stands as it is
 * @param noSync its writer syncs it at the end
 * @throws the storage's error
 */
export async function createCaptureEnv(
  path: string,
  dataKey: Uint8Array | null,
  noSync = false,
): Promise<CaptureEnv> {
  const root = open<Buffer, string>({ ...ENV_OPTIONS, path, pageSize: PAGE_BYTES, noSync });
  try {
    return openTables(root, path, true, dataKey);
  } catch (error) {
    await root.close();
    throw error;
  }
}

/**
 * Opens a capture file that is there.
 * @param mode `read` never writes to it
 * @param dataKey under which it must be; null: it must be under none
 * @throws {CaptureFileError}; DataKeyError; Error while a restore is not complete; to write also {@link checkRoom}'s
 */
export function openCaptureEnv(
  path: string,
  mode: 'read' | 'write',
  dataKey: Uint8Array | null = null,
): CaptureEnv {
  refuseHalfRestored(path);
  if (mode === 'write') restoreCheckpoint(path);
  else if (needsRestore(path)) {
    const why = 'the machine stopped while it was written: start the service once, which restores it';
    throw new CaptureFileError('damaged', path, why);
  }
  checkCaptureHead(path);
  if (mode === 'write') checkRoom(path);
  let root: RootDatabase<Buffer, string>;
  try {
    // No fsync for each commit: what is committed is with the kernel and survives the process. A checkpoint makes it
    // survive the machine; flush() makes one, and the log makes one a second after a write.
    root = open<Buffer, string>({
      ...ENV_OPTIONS,
      path,
      noSync: mode === 'write',
      readOnly: mode === 'read',
    });
  } catch (error) {
    const why = `cannot be opened: ${(error as Error).message}`;
    throw new CaptureFileError('damaged', path, why, { cause: error });
  }
  let env: CaptureEnv;
  let format: Buffer | undefined;
  try {
    env = openTables(root, path, false, dataKey);
    format = env.meta.get('format');
    if (format === undefined) throw makeForeignError(path);
    if (Number(format.toString()) > CAPTURE_FORMAT) {
      const why = `written by a newer version (format ${format.toString()}, this one reads up to ${CAPTURE_FORMAT})`;
      throw new CaptureFileError('newer_format', path, why);
    }
  } catch (error) {
    void root.close();
    if (error instanceof CaptureFileError || error instanceof DataKeyError) throw error;
    if (/not ?found/i.test((error as Error).message)) throw makeForeignError(path, error);
    throw new CaptureFileError('damaged', path, (error as Error).message, { cause: error });
  }
  if (mode === 'read') return env;
  let checkpoints: Checkpoints | null = null;
  try {
    checkpoints = new Checkpoints(path);
    return { ...upgradeFile(env, Number(format.toString())), checkpoints };
  } catch (error) {
    // A full disk, say: nothing is wrong with the file.
    void checkpoints?.close();
    void root.close();
    throw namePlace(error, path);
  }
}

/** Makes what was committed outlast the machine. @throws the storage's error */
export function syncEnv(env: CaptureEnv): Promise<void> {
  if (env.checkpoints !== null) return env.checkpoints.write();
  const root = env.root as unknown as { sync(done: (error: Error | null) => void): void };
  return new Promise((resolve, reject) => {
    root.sync((error) => (error ? reject(error) : resolve()));
  });
}

export async function closeEnv(env: CaptureEnv): Promise<void> {
  await env.checkpoints?.close();
  await env.root.close();
}

/**
 * Writes a row behind all others of its table.
 * @throws Error if the row or a later one exists: another process has written, from where the claim that each writer makes
 * first (writer-claim.ts) does not reach. The types do not say that LMDB tells
 */
export function appendRow(table: Database<Buffer, number>, key: number, value: Buffer): void {
  const isWritten = table.putSync(key, value, { append: true }) as unknown as boolean;
  if (isWritten) return;
  const words = 'another process has written to the capture database meanwhile';
  throw Object.assign(new Error(words), { code: 'EBUSY' });
}

/** Names of headers that name runs, which the operator gave the writer of the file (SVC_RUN_HEADERS); in lower case. */
export function readRunHeaders(env: CaptureEnv): string[] {
  const value = env.meta.get(RUN_HEADERS)?.toString('utf8') ?? '';
  return value === '' ? [] : value.split(',');
}

/** Stores the names of the run headers for readers of the file. */
export function noteRunHeaders(env: CaptureEnv, names: readonly string[]): void {
  if (names.join() === readRunHeaders(env).join()) return;
  env.root.transactionSync(() => env.meta.putSync(RUN_HEADERS, Buffer.from(names.join())));
}

const RUN_HEADERS = 'run_headers';

/** A whole number from the meta table; `fallback` when it is not there. */
export function readMetaNumber(env: CaptureEnv, key: string, fallback: number): number {
  const value = env.meta.get(key);
  return value === undefined ? fallback : Number(value.toString());
}

/** `capture.mdb` → stem `…/capture` and extension `.mdb`. */
function splitName(path: string): { stem: string; extension: string } {
  const extension = extname(path);
  return { stem: path.slice(0, path.length - extension.length), extension };
}

/** Where the file that holds these ids is (or will be) sealed. */
export function sealedPath(path: string, firstId: number, lastId: number, sealing: boolean): string {
  const { stem, extension } = splitName(path);
  return `${stem}.${firstId}-${lastId}${sealing ? '.sealing' : ''}${extension}`;
}

/** Sealed files (and those being sealed) of one capture database, in the order of their ids. */
export function listSealed(path: string): SealedFile[] {
  const { stem, extension } = splitName(path);
  const folder = dirname(path);
  const prefix = `${basename(stem)}.`;
  const files: SealedFile[] = [];
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  for (const name of names) {
    if (!name.startsWith(prefix) || !name.endsWith(extension)) continue;
    const middle = name.slice(prefix.length, name.length - extension.length);
    const range = /^(\d+)-(\d+)(\.sealing)?$/.exec(middle);
    if (range === null) continue;
    files.push({
      path: join(folder, name),
      first_id: Number(range[1]),
      last_id: Number(range[2]),
      sealing: range[3] !== undefined,
    });
  }
  return files.sort((a, b) => a.first_id - b.first_id || Number(a.sealing) - Number(b.sealing));
}

/** What a name has between the database's own and the extension, when it is not the live file's. */
const SUFFIX = /(?:\.\d+-\d+(?:\.sealing)?)?(?:\.damaged-\d+T\d+)?$/;

/** Where a damaged file is set aside. */
export function damagedPath(path: string, now: Date): string {
  const { stem, extension } = splitName(path);
  const time = now.toISOString().replace(/[-:.Z]/g, '');
  return `${stem.replace(/\.sealing$/, '')}.damaged-${time}${extension}`;
}

/** Whether a file of that name was a part of the database, and set aside. */
export function isDamagedName(live: string, name: string): boolean {
  const { stem, extension } = splitName(name);
  const kept = splitName(live);
  return (
    extension === kept.extension && /\.damaged-\d+T\d+$/.test(stem) && stem.replace(SUFFIX, '') === kept.stem
  );
}

/** The folder of attachments that belongs to a capture file: live, sealed or set aside. */
export function attachmentsFolder(path: string): string {
  const { stem, extension } = splitName(path);
  return `${stem.replace(SUFFIX, '')}${extension}.files`;
}

/** The folder of raw files that belongs to a capture file, live or sealed. */
export function rawFolder(path: string): string {
  const { stem, extension } = splitName(path);
  return `${stem.replace(/\.\d+-\d+(?:\.sealing)?$/, '')}${extension}.raw`;
}

/** Read-only, and for this user alone, as sealed files are. */
export function makeReadOnly(path: string): void {
  chmodSync(path, 0o400);
}
