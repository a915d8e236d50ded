/** Where the product's databases are, and their tables for one thread. Any thread. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DataKeyError } from '../../std/data-key.ts';
import { describeRefusal } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { describePlan, planPath } from '../rekey-plan.ts';
import type { Stores } from '../stores.ts';
import { checkFileHead, checkRoom, FileHeadError } from './file-head.ts';
import { LmdbJournal } from './journal.ts';
import { LmdbTables } from './tables.ts';

/** Where the databases in DATA_DIR are, and their key: plain data, for threads to open them by. */
export interface DatabasePaths {
  main: string;
  runs: string;
  /** Secret; null: they are not sealed. */
  data_key: Uint8Array | null;
}

export function databasePaths(dataDir: string, dataKey: Uint8Array | null = null): DatabasePaths {
  return { main: join(dataDir, 'main.mdb'), runs: join(dataDir, 'runs.mdb'), data_key: dataKey };
}

/** Where the host with that number keeps what runs have promised and `runs.mdb` has not yet (backlog.ts). */
export function redoLogPath({ runs }: DatabasePaths, host: number): string {
  return `${runs.replace(/\.mdb$/, '')}.${host}.redo`;
}

const NONE: ReadonlySet<string> = new Set();

/** Redo logs beside the database, of however many hosts an earlier process had. */
export function findRedoLogs({ runs }: DatabasePaths): string[] {
  const folder = dirname(runs);
  const stem = basename(runs).replace(/\.mdb$/, '');
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.startsWith(`${stem}.`) && /^\d+\.redo$/.test(name.slice(stem.length + 1)))
    .map((name) => join(folder, name));
}

/**
 * Opens both for this thread; makes what is missing.
 * @throws Error when a file cannot be opened
 */
export function openStores({ main, runs, data_key }: DatabasePaths): Stores {
  return {
    main: new LmdbTables(main, 'disk', data_key),
    runs: new LmdbTables(runs, 'process', data_key),
  };
}

export async function closeStores({ main, runs }: Stores): Promise<void> {
  await Promise.all([main.close(), runs.close()]);
}

/**
 * Opens the main database alone, for a command that works at it; makes it where it is missing.
 * @throws Error that says in one line which file it is; its `code` marks it as no fault of ours
 */
export function openMain({ main: path, data_key }: DatabasePaths): LmdbTables {
  checkIfThere(path);
  // What is written now would not be in what takes its place.
  if (existsSync(planPath(dirname(path))))
    throw refuse(`${describePlan(dirname(path))}: try again when it is done`, null);
  try {
    makeFolder(dirname(path));
    checkRoom(path);
    return new LmdbTables(path, 'disk', data_key);
  } catch (thrown) {
    if (thrown instanceof DataKeyError) throw thrown;
    throw refuse(
      `${path} cannot be opened: ${reasonOf(thrown)}; DATA_DIR says where it is looked for`,
      thrown,
    );
  }
}

/** One that is missing or empty becomes one. */
function checkIfThere(path: string): void {
  if (existsSync(path) && statSync(path).size > 0) checkDatabase(path);
}

/**
 * LMDB ends the whole process over a file that is none of its own.
 * @throws Error that says in one line which file it is; its `code` marks it as no fault of ours
 */
export function checkDatabase(path: string): void {
  try {
    checkFileHead(path);
  } catch (thrown) {
    if (thrown instanceof FileHeadError && thrown.code === 'unreadable')
      throw refuse(`${path} cannot be opened: ${reasonOf(thrown.cause)}`, thrown);
    throw refuse(`${path} is no database, or is damaged: restore a backup, or move it away`, thrown);
  }
}

/**
 * Opens both once and closes them again, before any thread does: a thread that cannot is started again and again while
 * nobody reads why, and LMDB ends the whole process over a file that is none of its own. What an earlier process promised
 * in redo logs is in the database then.
 * @throws Error that says in one line which file it is; its `code` marks it as no fault of ours
 */
export async function tryStores(paths: DatabasePaths): Promise<void> {
  for (const path of [paths.main, paths.runs]) checkIfThere(path);
  try {
    makeFolder(dirname(paths.main));
    for (const path of [paths.main, paths.runs]) checkRoom(path);
    await closeStores(openStores(paths));
    for (const path of findRedoLogs(paths))
      await new LmdbJournal(
        paths.runs,
        'process',
        { path, kinds: NONE, tables: NONE },
        paths.data_key,
      ).close();
  } catch (thrown) {
    if (thrown instanceof DataKeyError) throw thrown;
    throw refuse(`${paths.main} and ${paths.runs} cannot be opened: ${reasonOf(thrown)}`, thrown);
  }
}

function reasonOf(thrown: unknown): string {
  return describeRefusal(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown));
}

function refuse(words: string, cause: unknown): Error {
  return Object.assign(new Error(words, { cause }), { code: 'ESTORES' });
}
