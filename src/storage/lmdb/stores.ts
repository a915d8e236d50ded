/** The paths of the product's databases, and functions that check and open them for one thread. Any thread. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DataKeyError, openDataKey } from '../../std/data-key.ts';
import { describeRefusal } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { RedoLog } from '../redo-log.ts';
import { refuseHalfRestored } from '../restore-marker.ts';
import type { StoreSeat } from '../shared/seat.ts';
import type { TableStores } from '../stores.ts';
import { TableRunReads } from '../table-run-reads.ts';
import { toStores } from '../table-stores.ts';
import { restoreCheckpoint } from './checkpoint.ts';
import { Environment } from './environment.ts';
import { checkFileHead, checkRoom, FileHeadError } from './file-head.ts';
import { FileReplacementError, refuseReplacement } from './file-replacement.ts';
import { LmdbJournal } from './journal.ts';
import { type DatabasePaths, openMainTables, openRunReads } from './main-store.ts';
import { prepareStoreFile } from './store-file.ts';
import { LmdbTables } from './tables.ts';

export type { DatabasePaths };

export function databasePaths(dataDir: string, dataKey: Uint8Array | null = null): DatabasePaths {
  return { main: join(dataDir, 'main.mdb'), runs: join(dataDir, 'runs.mdb'), data_key: dataKey };
}

/** Returns the path of the view of rows that several boxes share. */
export function viewPath(dataDir: string): string {
  return join(dataDir, 'shared.mdb');
}

/**
 * Returns the paths for readers of rows about runs. On a box that shares its rows, both are the path of its view, which
 * contains these rows.
 */
export function wordPaths(dataDir: string, dataKey: Uint8Array | null): DatabasePaths {
  const own = databasePaths(dataDir, dataKey);
  const view = viewPath(dataDir);
  return existsSync(view) ? { ...own, main: view, runs: view } : own;
}

/**
 * Returns the paths for the threads of a service.
 * @param seat connection to the store thread; null: rows are not shared
 */
export function servicePaths(
  { data_dir, data_key }: { data_dir: string; data_key: Uint8Array | null },
  seat: StoreSeat | null,
): DatabasePaths {
  const own = databasePaths(data_dir, data_key);
  const view = viewPath(data_dir);
  return seat === null ? own : { ...own, main: view, runs: view, seat };
}

/** Returns the path of a host's redo log: acknowledged commits that `runs.mdb` does not contain yet (backlog.ts). */
export function redoLogPath({ runs }: DatabasePaths, host: number): string {
  return `${runs.replace(/\.mdb$/, '')}.${host}.redo`;
}

const NO_NAMES: ReadonlySet<string> = new Set();

/** Finds all redo logs beside the database, because an earlier process may have had more hosts. */
export function findRedoLogs({ runs }: DatabasePaths): string[] {
  const folder = dirname(runs);
  const stem = basename(runs).replace(/\.mdb$/, '');
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.startsWith(`${stem}.`) && /^\d+\.redo$/.test(name.slice(stem.length + 1)))
    .map((name) => join(folder, name));
}

/**
 * Opens both databases for this thread; creates missing ones. On a box that shares its rows, opens the view instead.
 * @throws Error if a file cannot be opened
 */
export function openStores(paths: DatabasePaths): TableStores {
  const main = openMainTables(paths);
  if (paths.seat !== undefined) return toStores(main, main, openRunReads(paths.seat));
  const runs = new LmdbTables(paths.runs, 'process', paths.data_key);
  return toStores(main, runs, new TableRunReads(runs));
}

export async function closeStores({ main, runs, run_reads }: TableStores): Promise<void> {
  await run_reads.close();
  await main.close();
  if (runs !== main) await runs.close();
}

/**
 * Opens only the main database, for a command that writes to it; creates it if missing.
 * @throws Error with a one-line message that names the file; its `code` marks it as an expected error
 */
export function openMain({ main: path, data_key }: DatabasePaths): LmdbTables {
  refuseShared(dirname(path));
  refuseHalfRestored(path);
  checkIfThere(path);
  refuseReplacement(path);
  try {
    makeFolder(dirname(path));
    checkRoom(path);
    return new LmdbTables(path, 'disk', data_key, false);
  } catch (thrown) {
    if (thrown instanceof DataKeyError || thrown instanceof FileReplacementError) throw thrown;
    throw refuse(`${path} cannot be opened: ${reasonOf(thrown)}; DATA_DIR names the folder`, thrown);
  }
}

/**
 * Throws if the folder belongs to a box that shares its rows: the boxes would not see changes to main.mdb.
 * @throws Error with a one-line message
 */
export function refuseShared(dataDir: string): void {
  if (!existsSync(viewPath(dataDir))) return;
  throw refuse(
    `${dataDir} belongs to a box that shares a PostgreSQL database with others, and has no main.mdb: docs/scale.md says what ` +
      'works on such a box, and AUTH_DB_URL names the database',
    undefined,
  );
}

/** Checks a database that exists. A missing or empty file becomes a database when it is opened. */
function checkIfThere(path: string): void {
  if (existsSync(path) && statSync(path).size > 0) checkDatabase(path);
}

/**
 * Checks a file before it is opened, because LMDB crashes the whole process if the file is not a database.
 * @throws Error with a one-line message that names the file; its `code` marks it as an expected error
 */
export function checkDatabase(path: string): void {
  try {
    checkFileHead(path);
  } catch (thrown) {
    if (thrown instanceof FileHeadError && thrown.code === 'unreadable')
      throw refuse(`${path} cannot be opened: ${reasonOf(thrown.cause)}`, thrown);
    throw refuse(`${path} is not a database, or is damaged: restore a backup, or move the file away`, thrown);
  }
}

/**
 * Interval of the checkpoints of `runs.mdb`. A power failure loses the commits since the last complete checkpoint began:
 * usually those of one interval and of one sync; if syncs take longer than the interval, those of two syncs.
 */
const CHECKPOINT_EVERY_MS = 1_000;

/** The checkpoints of `runs.mdb` while the service runs. */
interface KeptCheckpoints {
  /** Ends the checkpoints with a last one. */
  stop(): Promise<void>;
}

/**
 * Makes a checkpoint of `runs.mdb` now and after every interval with a commit (checkpoint.ts). Main thread, before any
 * other thread writes to the file.
 * @param onFailure called at the first failed checkpoint; after that, the file may be lost in a power failure
 * @throws a file system error
 */
export function keepCheckpoints(
  { runs, data_key }: DatabasePaths,
  onFailure: (thrown: Error) => void,
): KeptCheckpoints {
  const environment = Environment.open(runs, 'process', data_key);
  let hasFailed = false;
  const write = () =>
    environment.checkpoint().catch((thrown: Error) => {
      if (!hasFailed) onFailure(thrown);
      hasFailed = true;
    });
  const timer = setInterval(write, CHECKPOINT_EVERY_MS).unref();
  try {
    environment.guard();
  } catch (thrown) {
    clearInterval(timer);
    void environment.close();
    throw thrown;
  }
  return {
    stop: async () => {
      clearInterval(timer);
      await write();
      await environment.close();
    },
  };
}

/**
 * Opens both databases once and closes them, before any thread opens them. Otherwise a thread that cannot open them
 * would be restarted again and again, and LMDB would crash the whole process if a file is not a database. If the
 * machine has restarted, the checkpoint of `runs.mdb` is restored first. Then the redo logs of an earlier process are
 * applied to `runs.mdb`.
 * @returns whether the checkpoint was restored
 * @throws Error with a one-line message that names the file; its `code` marks it as an expected error
 */
export async function tryStores(paths: DatabasePaths): Promise<boolean> {
  return tryFiles([paths.main, paths.runs], paths, () => closeStores(openStores(paths)));
}

/** Like `tryStores`, but for `runs.mdb` alone, before its rows are moved. */
export async function tryRuns(paths: DatabasePaths): Promise<boolean> {
  return tryFiles([paths.runs], paths, () => new LmdbTables(paths.runs, 'process', paths.data_key).close());
}

async function tryFiles(
  files: readonly string[],
  paths: DatabasePaths,
  tryOpen: () => Promise<void>,
): Promise<boolean> {
  for (const path of files) refuseHalfRestored(path);
  const isRestored = restoreCheckpoint(paths.runs);
  for (const path of files) checkIfThere(path);
  try {
    makeFolder(dirname(paths.runs));
    for (const path of files) {
      checkRoom(path);
      await prepareStoreFile(path, paths.data_key);
    }
    await tryOpen();
    await takeRedoLogs(paths);
    return isRestored;
  } catch (thrown) {
    if (thrown instanceof DataKeyError) throw thrown;
    throw refuse(`${files.join(' and ')} cannot be opened: ${reasonOf(thrown)}`, thrown);
  }
}

/** Applies the redo logs of an earlier process to `runs.mdb`. */
async function takeRedoLogs(paths: DatabasePaths): Promise<void> {
  const logs = findRedoLogs(paths);
  if (logs.length === 0) return;
  const checkpoints = keepCheckpoints(paths, () => {});
  try {
    for (const path of logs)
      await new LmdbJournal(
        paths.runs,
        'process',
        { path, kinds: NO_NAMES, tables: NO_NAMES },
        paths.data_key,
      ).close();
  } finally {
    await checkpoints.stop();
  }
  for (const path of logs) wipeRedoLog(path, paths.data_key);
}

/** Overwrites the records of a redo log that are in the database. */
function wipeRedoLog(path: string, dataKey: Uint8Array | null): void {
  const log = new RedoLog(path, 0, openDataKey(dataKey)?.sealer('redo') ?? null);
  try {
    log.wipe();
  } finally {
    log.close();
  }
}

function reasonOf(thrown: unknown): string {
  return describeRefusal(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown));
}

function refuse(words: string, cause: unknown): Error {
  return Object.assign(new Error(words, { cause }), { code: 'ESTORES' });
}
