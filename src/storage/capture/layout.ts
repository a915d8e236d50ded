/**
 * The layout of capture files: their names, the LMDB environment, its tables, and the checks of a file before it is
 * opened. Used by the capture process, which writes the files, and by readers on any thread.
 *
 *   capture.mdb                      the live file, one writer, any number of readers
 *   capture.1-5321.mdb               sealed: read-only, compacted, exchanges 1 to 5321
 *   capture.1-5321.sealing.mdb       being sealed; readable, too
 *   capture.damaged-<time>.mdb       set aside because it is damaged (damage.ts)
 *   capture.mdb.last-id              the last id that was assigned (last-id.ts)
 *   capture.mdb.retention-clock      the time of the last deletion by age (../retention-clock.ts)
 *   capture.mdb.erasing              the accepted order to erase exchanges (erase-order.ts)
 *   capture.mdb.compacting           the accepted order to give unused space back (rewrite-order.ts)
 *   capture.mdb.rekeying             the accepted order to write files under another key (rewrite-order.ts)
 *   capture.mdb.keys                 both data keys during a rekey (capture-keys.ts)
 *   capture.mdb-safe                 the state to which the live file returns after a power cut (lmdb/checkpoint.ts)
 *   capture.mdb.files/<sha256>       attachments, shared by live and sealed files
 *   capture.mdb.text/<ids>.seg       the full-text index (../text-index/segment-files.ts)
 *   capture.mdb.runs                 the list of runs (run-index.ts)
 *   capture.mdb.bucket               a note of what is in a bucket (../offload/offload-note.ts)
 *   capture.mdb.cache/               packs that were fetched from the bucket
 *   capture.mdb.raw/<number>.raw     blocks that arrived too fast to be packed at once (raw-files.ts)
 *
 * Tables of a file:
 *
 *   meta      the format, the first id, the last indexed id
 *   blocks    id of the first exchange → a block of exchanges (codec.ts)
 *   pieces    number → a piece of a block (codec.ts)
 *   facts     the exchange index (summary-table.ts), and the newest exchanges that it lacks (newest-exchanges.ts)
 *   tails     id of a turn → what is needed to link later turns to it (turn-links.ts)
 *   waiting   key of a block that is not packed yet → the number of its raw file
 *   early     id of an exchange → facts of it and of later exchanges that wait for their turn in the index
 *             (early-facts.ts)
 */
import { chmodSync, existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { DataKeyError, openDataKey } from '../../std/data-key.ts';
import { namePlace } from '../../std/file-place.ts';
import { Checkpoints, needsRestore, restoreCheckpoint } from '../lmdb/checkpoint.ts';
import { checkFileHead, checkRoom, FileHeadError } from '../lmdb/file-head.ts';
import { openForWriting } from '../lmdb/newest-commit.ts';
import { measureFile } from '../lmdb/page-count.ts';
import {
  checkSealing,
  copySealing,
  type FileSealing,
  markChecksums,
  openCodec,
  readKeyId,
  SealedTable,
  type ValueTable,
} from '../lmdb/sealed-table.ts';
import { refuseHalfRestored } from '../restore-marker.ts';
import { readCaptureKeys } from './capture-keys.ts';

/**
 * Format number of new files. A reader refuses files with a number above OFFLOADED_FORMAT. What each number added:
 *   2   blocks may be in raw files
 *   3   blocks in raw files may be in several pieces
 *   4   in a file without a key, summaries and tails may have checksums
 *   5   the last block of summaries may have several rows (summary-table.ts)
 */
export const CAPTURE_FORMAT = 5;
/** Format number of sealed files whose blocks are in a bucket (src/storage/offload/). */
export const OFFLOADED_FORMAT = 6;

/**
 * Page size of new files; for existing files, LMDB reads it from the file. Small pages keep commits small, because
 * every commit writes some pages again. Larger values are cut to fit (codec.ts).
 */
const PAGE_BYTES = 4_096;

export type CaptureFileFault =
  | 'missing'
  | 'not_a_capture'
  | 'truncated'
  | 'damaged'
  | 'newer_format'
  | 'unreadable'
  /** The file's blocks are in a bucket that cannot be read now. */
  | 'remote';

/** A capture file cannot be opened or read. `code` is the reason; the message names the file. */
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
 * Calls `read`, and reports any error that is not a CaptureFileError as damage of the file.
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
  /** null for readers, which do not use it. */
  waiting: Database<Buffer, number> | null;
  /** null for readers, which do not use it. */
  early: ValueTable<number> | null;
  /** Encrypts blocks, summaries and tails; null: they are not encrypted. */
  sealing: FileSealing | null;
  /**
   * Makes the checkpoints of a file that is open for writing; null for readers, and for a copy that is synced once,
   * when it is complete.
   */
  checkpoints: Checkpoints | null;
  /** The tables as LMDB has them, to count their pages. */
  raw: readonly Pick<Database, 'getStats'>[];
}

/** A sealed file (or one that is being sealed), and the ids that it contains. */
export interface SealedFile {
  path: string;
  first_id: number;
  last_id: number;
  sealing: boolean;
}

/**
 * {@link checkFileHead} for a capture file.
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

/** Opens the tables of a file, or creates them. @param dataKey the key of the file; null: it is not encrypted */
function openTables(
  root: RootDatabase<Buffer, string>,
  path: string,
  create: boolean,
  dataKey: Uint8Array | null,
): CaptureEnv {
  const sealing = checkSealing(root, path, openDataKey(dataKey));
  const raw: Database<Buffer, never>[] = [];
  // Blocks always have checksums. This mark says that the other values have checksums, too.
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
    // lmdb-js accepts `create` here but does not declare it. Without `create: false`, lmdb-js would create missing
    // tables.
    const opened: Database<Buffer, K> | undefined = root.openDB<Buffer, K>(
      create ? options : ({ ...options, create } as typeof options),
    );
    if (opened === undefined) throw makeForeignError(path);
    raw.push(opened as unknown as Database<Buffer, never>);
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
    early: create ? sealed(EARLY) : null,
    checkpoints: null,
    raw,
  };
}

/**
 * Measures the size of the file, and how much of it is in pages that no table uses. LMDB counts the pages, so this is
 * fast.
 */
export function measurePages({ root, raw }: CaptureEnv): { bytes: number; unused_bytes: number } {
  return measureFile(root, raw);
}

/** Finds the key of the file: the configured one, or the other key of a change in progress (capture-keys.ts). */
export function chooseKey(
  // biome-ignore lint/suspicious/noExplicitAny: files have keys of several kinds
  root: RootDatabase<Buffer, any>,
  path: string,
  dataKey: Uint8Array | null,
): Uint8Array | null {
  const { all } = readCaptureKeys(livePath(path), dataKey);
  if (all.length === 1) return dataKey;
  const id = readKeyId(root);
  return all.find((key) => openDataKey(key)?.id === id) ?? dataKey;
}

/** Opens the tables that only the writer uses. Creates what a file of an earlier format lacks. */
function upgradeFile(env: CaptureEnv, path: string, key: Uint8Array | null, format: number): CaptureEnv {
  const options = { encoding: 'binary', cache: false, keyEncoding: 'uint32' } as const;
  const waiting = env.root.openDB<Buffer, number>({ name: 'waiting', ...options });
  const early = env.root.openDB<Buffer, number>({ name: EARLY, ...options });
  const codec = openCodec(env.root, path, openDataKey(key));
  if (format < CAPTURE_FORMAT) env.meta.putSync('format', Buffer.from(String(CAPTURE_FORMAT)));
  return {
    ...env,
    waiting,
    early: codec === null ? early : new SealedTable(early, EARLY, codec, path),
    raw: [...env.raw, waiting, early],
  };
}

function makeForeignError(path: string, cause?: unknown): CaptureFileError {
  return new CaptureFileError('not_a_capture', path, 'a database, but not of captured exchanges', { cause });
}

/** Name of the table of facts that wait for their turn in the index. */
const EARLY = 'early';

const ENV_OPTIONS = {
  noSubdir: true,
  maxDbs: 9,
  encoding: 'binary',
  cache: false,
  overlappingSync: false,
} as const;

/**
 * Creates an empty capture file unless the file exists. It is created under another name and renamed, so it is never
 * incomplete.
 * @param firstId id of its first exchange
 * @param turns rows for `tails`, from the previous file
 * @param dataKey the configured key, which encrypts the content unless a change of the key is in progress; null: no
 * encryption
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
    const env = await createCaptureEnv(partial, readCaptureKeys(path, dataKey).newest);
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
    // Removes the lock file of an earlier database.
    rmSync(`${path}-lock`, { force: true });
    renameSync(partial, path);
  } finally {
    removePartial();
  }
}

/**
 * Creates a file with empty tables. It becomes a capture file when the caller writes the format into `meta`.
 * @param dataKey encrypts the content; null: no encryption
 * @param noSync true: commits are not synced; the caller syncs the complete file
 * @param like a file with the same key, whose encrypted blocks are copied unchanged into the new file; null: no such
 * file
 * @throws the storage's error
 */
export async function createCaptureEnv(
  path: string,
  dataKey: Uint8Array | null,
  noSync = false,
  like: CaptureEnv | null = null,
): Promise<CaptureEnv> {
  const root = open<Buffer, string>({ ...ENV_OPTIONS, path, pageSize: PAGE_BYTES, noSync });
  try {
    if (like !== null) copySealing(like.root, root);
    return openTables(root, path, true, dataKey);
  } catch (error) {
    await root.close();
    throw error;
  }
}

/**
 * Opens an existing capture file.
 * @param mode `read` never writes to it
 * @param dataKey the configured key, which is the file's key or the other key of a change (capture-keys.ts); null: the
 * file must not be encrypted
 * @throws {CaptureFileError}; DataKeyError; Error while a restore is incomplete; for writing, also the errors of {@link
 * checkRoom}
 */
export function openCaptureEnv(
  path: string,
  mode: 'read' | 'write',
  dataKey: Uint8Array | null = null,
): CaptureEnv {
  refuseHalfRestored(path);
  if (mode === 'write') restoreCheckpoint(path);
  else if (needsRestore(path)) {
    const why = 'the machine stopped while the file was written: start the service once to restore the file';
    throw new CaptureFileError('damaged', path, why);
  }
  checkCaptureHead(path);
  if (mode === 'write') checkRoom(path);
  let root: RootDatabase<Buffer, string>;
  try {
    // Commits are not synced. The kernel has committed data, so they survive the end of the process. A checkpoint makes
    // them survive a power failure. `flush()` makes one, and the log makes one a second after a write.
    root =
      mode === 'write'
        ? openForWriting<Buffer, string>({ ...ENV_OPTIONS, path, noSync: true })
        : open<Buffer, string>({ ...ENV_OPTIONS, path, readOnly: true });
  } catch (error) {
    const why = `cannot be opened: ${(error as Error).message}`;
    throw new CaptureFileError('damaged', path, why, { cause: error });
  }
  let env: CaptureEnv;
  let key: Uint8Array | null;
  let format: Buffer | undefined;
  try {
    key = chooseKey(root, path, dataKey);
    env = openTables(root, path, false, key);
    format = env.meta.get('format');
    if (format === undefined) throw makeForeignError(path);
    if (Number(format.toString()) > OFFLOADED_FORMAT) {
      const why = `written by a newer version (format ${format.toString()}, this one reads up to ${OFFLOADED_FORMAT})`;
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
    return { ...upgradeFile(env, path, key, Number(format.toString())), checkpoints };
  } catch (error) {
    // The cause may be a full disk; the file itself is intact.
    void checkpoints?.close();
    void root.close();
    throw namePlace(error, path);
  }
}

/** Makes committed data survive a power failure. @throws the storage's error */
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
 * Appends a row, whose key must be greater than all keys of the table.
 * @throws Error if the key or a greater one exists, because another process wrote in spite of the writer's claim
 * (writer-claim.ts). lmdb-js's types do not declare that `putSync` returns false then
 */
export function appendRow(table: Database<Buffer, number>, key: number, value: Buffer): void {
  const isWritten = table.putSync(key, value, { append: true }) as unknown as boolean;
  if (isWritten) return;
  const words = 'another process has written to the capture database meanwhile';
  throw Object.assign(new Error(words), { code: 'EBUSY' });
}

/** Reads the names of the headers that name runs (SVC_RUN_HEADERS of the file's writer), in lower case. */
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

/** Reads an integer from the meta table; `fallback` if it is missing. */
export function readMetaNumber(env: CaptureEnv, key: string, fallback: number): number {
  const value = env.meta.get(key);
  return value === undefined ? fallback : Number(value.toString());
}

/** `capture.mdb` → stem `…/capture` and extension `.mdb`. */
function splitName(path: string): { stem: string; extension: string } {
  const extension = extname(path);
  return { stem: path.slice(0, path.length - extension.length), extension };
}

/** Returns the path of the sealed file with these ids, whether it exists or not. */
export function sealedPath(path: string, firstId: number, lastId: number, sealing: boolean): string {
  const { stem, extension } = splitName(path);
  return `${stem}.${firstId}-${lastId}${sealing ? '.sealing' : ''}${extension}`;
}

/**
 * Lists the sealed files (and files that are being sealed) of a capture database, in id order; an empty list if the
 * folder cannot be read.
 */
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

/** In names of files other than the live file: what follows the database's name, before the extension. */
const SUFFIX = /(?:\.\d+-\d+(?:\.sealing)?)?(?:\.damaged-\d+T\d+)?$/;

/** Returns the path to which a damaged file is renamed. */
export function damagedPath(path: string, now: Date): string {
  const { stem, extension } = splitName(path);
  const time = now.toISOString().replace(/[-:.Z]/g, '');
  return `${stem.replace(/\.sealing$/, '')}.damaged-${time}${extension}`;
}

/** Whether the name is that of a damaged file of the database. */
export function isDamagedName(live: string, name: string): boolean {
  const { stem, extension } = splitName(name);
  const kept = splitName(live);
  return (
    extension === kept.extension && /\.damaged-\d+T\d+$/.test(stem) && stem.replace(SUFFIX, '') === kept.stem
  );
}

/** Returns the live file to which a capture file belongs: live, sealed or damaged. */
export function livePath(path: string): string {
  const { stem, extension } = splitName(path);
  return stem.replace(SUFFIX, '') + extension;
}

/** Returns the attachments folder of a capture file: live, sealed or damaged. */
export function attachmentsFolder(path: string): string {
  return `${livePath(path)}.files`;
}

/** Returns the raw-files folder of a capture file, live or sealed. A damaged file has its own folder. */
export function rawFolder(path: string): string {
  const { stem, extension } = splitName(path);
  return `${stem.replace(/\.\d+-\d+(?:\.sealing)?$/, '')}${extension}.raw`;
}

/** Returns the folder for data of a capture file, live or sealed, that were fetched from a bucket. */
export function cacheFolder(path: string): string {
  return `${livePath(path)}.cache`;
}

/**
 * Returns the path of the note of a capture file, live or sealed, about what is in a bucket
 * (src/storage/offload/offload-note.ts).
 */
export function bucketNotePath(path: string): string {
  return `${livePath(path)}.bucket`;
}

/** Makes a file read-only and accessible to this user alone, as sealed files are. */
export function makeReadOnly(path: string): void {
  chmodSync(path, 0o400);
}
