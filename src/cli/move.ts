/** `understudy move`: moves the databases of a box into PostgreSQL, and back. Main thread. */
import { hash, randomUUID } from 'node:crypto';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError } from '../config/config-error.ts';
import { loadConfig } from '../config.ts';
import { openDataKey } from '../std/data-key.ts';
import { makeFolder } from '../std/folder.ts';
import { syncPath } from '../std/synced-path.ts';
import { checkpointPath } from '../storage/lmdb/checkpoint.ts';
import {
  checkDatabase,
  type DatabasePaths,
  databasePaths,
  findRedoLogs,
  tryRuns,
  viewPath,
} from '../storage/lmdb/stores.ts';
import { refuseHalfRestored } from '../storage/restore-marker.ts';
import { findDifference, RowDigests, type TableDigest } from '../storage/row-digests.ts';
import { type StoredRow, TruthRefusedError, TruthUnavailableError } from '../storage/shared/truth.ts';
import { claimWriter, WriterClaimedError } from '../storage/writer-claim.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { type MoveNote, readMoveNote, removeMoveNote, writeMoveNote } from './move-note.ts';
import { Progress } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Moves the databases of DATA_DIR (accounts, keys, patterns, findings, traces, runs, usage and so on) into the
PostgreSQL database that AUTH_DB_URL names, or back. Captures stay where they are (docs/scale.md). First stop all
services that use the folder or the database. The command moves everything or nothing: it compares rows by number and
SHA-256 before the move takes effect.

--to postgres needs a database that "understudy migrate" has prepared and that has no rows. The user of
AUTH_DB_URL must own the tables. After the move, main.mdb is called main.mdb.moved, and runs.mdb is called
runs.mdb.moved. Remove both when the boxes run. If a DATA_DIR has only runs.mdb, its runs and its usage are added to
those of the database.

--to folder writes main.mdb and runs.mdb into a DATA_DIR that has none, and removes the view, shared.mdb. The rows in
PostgreSQL stay. If a move is interrupted, the same command starts again or completes the move, and says which.

Usage: understudy move --to postgres|folder

  --to WHERE   postgres: from DATA_DIR into AUTH_DB_URL; folder: from AUTH_DB_URL into DATA_DIR

Examples:
  AUTH_DB_URL=postgres://owner:PASSWORD@db.example/understudy understudy move --to postgres
  AUTH_DB_URL=postgres://owner:PASSWORD@db.example/understudy DATA_DIR=new understudy move --to folder
`;

interface MovePlace {
  /** Address of the database. Secret. */
  address: string;
  data_dir: string;
  /** Secret; null: no encryption. */
  data_key: Uint8Array | null;
}

interface Moved {
  rows: number;
  tables: number;
  /** Whether an earlier move had stored everything. */
  isContinued: boolean;
}

/** Receives the number of rows moved so far. */
type Teller = (rows: number) => void;

/** Runs `understudy move`. @returns the exit status */
export async function runMove(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, { to: 'text' });
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const { to } = values;
  if (to !== 'postgres' && to !== 'folder') throw new UsageError('--to must be postgres or folder');
  const { shared_database: address, data_dir, data_key } = loadConfig({ listener: 'api' });
  if (address === null)
    throw new ConfigError(
      'AUTH_DB_URL',
      '',
      'must be the address of a PostgreSQL database: postgres://USER:PASSWORD@HOST:PORT/DATABASE',
    );
  const place: MovePlace = { address, data_dir, data_key };
  const progress = new Progress(io, Date.now, true);
  try {
    const claim = await claimWriter(databasePaths(data_dir).main, { patience_ms: 0 });
    try {
      const tell = (rows: number) => progress.tell(`moving rows: ${rows} so far`, 0, 0);
      const moved = to === 'postgres' ? await moveIn(place, tell) : await moveOut(place, tell);
      progress.clear();
      await io.out(describeMoved(moved, to));
      return EXIT.done;
    } finally {
      progress.clear();
      await claim.release();
    }
  } catch (thrown) {
    const isExpected =
      thrown instanceof MoveError ||
      thrown instanceof TruthRefusedError ||
      thrown instanceof TruthUnavailableError ||
      thrown instanceof WriterClaimedError;
    if (!isExpected) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}

/** Nothing was moved. The message is one line for the operator. */
class MoveError extends Error {
  override readonly name = 'MoveError';
}

async function moveIn(place: MovePlace, tell: Teller): Promise<Moved> {
  const { address, data_dir, data_key } = place;
  const [{ RowFile }, { fillDatabase, hasMoved, refuseBoxes }, , { MovedRuns }] = await loadBoth();
  const paths = databasePaths(data_dir, data_key);
  const note = readMoveNote(data_dir);
  if (note?.to === 'postgres' && (await hasMoved(address, note.id))) return completeMove(place, note);
  const files = [paths.main, paths.runs].filter((path) => existsSync(path));
  if (files.length === 0)
    throw new MoveError(
      `${data_dir} has neither main.mdb nor runs.mdb: set DATA_DIR to the folder of the databases`,
    );
  for (const path of files) {
    if (existsSync(`${path}.moved`)) throw new MoveError(`${path}.moved already exists: move that file away`);
    refuseHalfRestored(path);
    checkDatabase(path);
  }
  // First write acknowledged data of the redo logs to the file.
  if (existsSync(paths.runs)) await tryRuns(paths);
  await refuseBoxes(address);
  const main = existsSync(paths.main) ? new RowFile(paths.main, data_key) : null;
  const runs = existsSync(paths.runs) ? new MovedRuns(paths.runs, data_key) : null;
  const [mainDigest, runsDigest] = [new RowDigests(), new RowDigests()];
  const id = randomUUID();
  const onReady = (stored: Map<string, TableDigest>) =>
    writeMoveNote(data_dir, {
      to: 'postgres',
      id,
      ...countRows(stored),
      main: main === null ? null : sumDigest(mainDigest),
      runs: runs === null ? null : sumDigest(runsDigest),
    });
  let moved: Map<string, TableDigest>;
  try {
    const source = {
      main: main === null ? null : digestRows(main.read(), mainDigest),
      runs: runs === null ? [] : digestRows(runs.read(), runsDigest),
    };
    const watch = { id, onRows: tell, onReady };
    moved = await fillDatabase(address, openDataKey(data_key), source, watch);
  } finally {
    await main?.close();
    await runs?.close();
  }
  putAside(paths);
  return { ...countRows(moved), isContinued: false };
}

/** Completes a move whose rows are in the database, if the files still have the same rows. */
async function completeMove({ data_dir, data_key }: MovePlace, note: MoveNote): Promise<Moved> {
  const [{ RowFile }, , , { MovedRuns }] = await loadBoth();
  const paths = databasePaths(data_dir, data_key);
  if (existsSync(paths.runs)) await tryRuns(paths);
  for (const [path, Reader, digest] of [
    [paths.main, RowFile, note.main],
    [paths.runs, MovedRuns, note.runs],
  ] as const) {
    if (!existsSync(path)) continue;
    const file = new Reader(path, data_key);
    const digests = new RowDigests();
    for (const portion of file.read()) digests.add(portion);
    await file.close();
    if (sumDigest(digests) !== digest || existsSync(`${path}.moved`))
      throw new MoveError(
        `an interrupted move has stored the rows of ${data_dir} in the database, and ${path} was changed or made since: set ` +
          'AUTH_DB_URL to a database without rows, or move that file away',
      );
  }
  putAside(paths);
  const { rows, tables } = note;
  return { rows, tables, isContinued: true };
}

/** Gives the files other names, and ends the move. */
function putAside(paths: DatabasePaths): void {
  // Rename main.mdb last, because no box starts while it exists.
  for (const path of [paths.runs, paths.main]) {
    if (existsSync(path)) renameSync(path, `${path}.moved`);
    rmSync(`${path}-lock`, { force: true });
  }
  for (const path of [checkpointPath(paths.runs), ...findRedoLogs(paths)]) rmSync(path, { force: true });
  const dataDir = dirname(paths.main);
  syncPath(dataDir);
  removeMoveNote(dataDir);
}

async function moveOut({ address, data_dir, data_key }: MovePlace, tell: Teller): Promise<Moved> {
  const { main, runs } = databasePaths(data_dir);
  const note = readMoveNote(data_dir);
  const wasInterrupted = note?.to === 'folder';
  if (wasInterrupted && existsSync(main)) {
    endMoveOut(data_dir);
    return { rows: note.rows, tables: note.tables, isContinued: true };
  }
  // This file is left from an interrupted move: without main.mdb, no service has used it.
  if (wasInterrupted) rmSync(runs, { force: true });
  for (const path of [main, runs])
    if (existsSync(path))
      throw new MoveError(`${path} already exists: set another DATA_DIR, or move that file away`);
  makeFolder(data_dir);
  const parts = [main, runs].map((path) => `${path}.partial`);
  const discard = () => {
    for (const path of parts) for (const file of [path, `${path}-lock`]) rmSync(file, { force: true });
  };
  discard();
  let moved: Map<string, TableDigest>;
  try {
    moved = await writeFolder({ address, data_dir, data_key }, tell);
  } catch (thrown) {
    discard();
    throw thrown;
  }
  const counts = countRows(moved);
  for (const path of parts) {
    rmSync(`${path}-lock`, { force: true });
    syncPath(path);
  }
  writeMoveNote(data_dir, { to: 'folder', id: '', ...counts, main: null, runs: null });
  // Rename main.mdb last, because the move is complete once it exists.
  for (const path of [runs, main]) renameSync(`${path}.partial`, path);
  endMoveOut(data_dir);
  return { ...counts, isContinued: false };
}

/** Removes the box's copy of the rows, which no service needs any more. */
function endMoveOut(dataDir: string): void {
  syncPath(dataDir);
  for (const path of [viewPath(dataDir), `${viewPath(dataDir)}-lock`]) rmSync(path, { force: true });
  syncPath(dataDir);
  removeMoveNote(dataDir);
}

function* digestRows(portions: Iterable<StoredRow[]>, digests: RowDigests): Iterable<StoredRow[]> {
  for (const portion of portions) {
    digests.add(portion);
    yield portion;
  }
}

/** Computes one digest from the digests of all tables. */
function sumDigest(digests: RowDigests): string {
  return hash('sha256', JSON.stringify([...digests.read()]));
}

function countRows(moved: ReadonlyMap<string, TableDigest>): { rows: number; tables: number } {
  let rows = 0;
  for (const table of moved.values()) rows += table.rows;
  return { rows, tables: moved.size };
}

/** Writes both databases under other names, and compares them with what the database has sent. */
async function writeFolder(
  { address, data_dir, data_key }: MovePlace,
  tell: Teller,
): Promise<Map<string, TableDigest>> {
  const [{ RowFile }, { readDatabase }, { isRunRow, isQueriedOnly }] = await loadBoth();
  const { main, runs } = databasePaths(data_dir);
  const files = [main, runs].map((path) => {
    const [sent, stored] = [new RowDigests(), new RowDigests()];
    return { path, file: new RowFile(`${path}.partial`, data_key), sent, stored };
  });
  const [ofMain, ofRuns] = files as [(typeof files)[0], (typeof files)[0]];
  let done = 0;
  const put = ({ file, sent }: (typeof files)[0], rows: StoredRow[]) => {
    sent.add(rows);
    file.write(rows);
    done += rows.length;
    tell(done);
  };
  try {
    await readDatabase(address, openDataKey(data_key), {
      onRows: (rows) => {
        put(
          ofMain,
          rows.filter(({ table, key }) => !isRunRow(table, key)),
        );
        put(
          ofRuns,
          rows.filter(({ table, key }) => isRunRow(table, key)),
        );
      },
      onQueried: (rows) =>
        put(
          ofRuns,
          rows.filter(({ table }) => !isQueriedOnly(table)),
        ),
      onCounted: (rows) => put(ofRuns, rows),
    });
    const moved = new Map<string, TableDigest>();
    for (const { path, file, sent, stored } of files) {
      for (const portion of file.read()) stored.add(portion);
      const read = stored.read();
      const difference = findDifference(sent.read(), read);
      if (difference !== null)
        throw new MoveError(
          `the rows of ${difference} in the new ${path} differ from those in the database: nothing was moved`,
        );
      for (const [table, digest] of read) moved.set(`${path} ${table}`, digest);
    }
    return moved;
  } finally {
    for (const { file } of files) await file.close();
  }
}

/**
 * Loads the modules of both storages only when needed, because one loads LMDB, and the other the driver of PostgreSQL.
 */
function loadBoth() {
  return Promise.all([
    import('../storage/lmdb/row-file.ts'),
    import('../storage/postgres/move.ts'),
    import('../storage/shared/run-places.ts'),
    import('../storage/lmdb/moved-runs.ts'),
  ]);
}

function describeMoved({ rows, tables, isContinued }: Moved, to: string): string {
  const where =
    to === 'postgres'
      ? 'into the database; the moved files now have names that end with .moved'
      : 'into main.mdb and runs.mdb';
  const first = isContinued ? 'An interrupted move had stored everything, and is complete now. ' : '';
  return `${first}Moved ${rows} rows of ${tables} tables ${where}.\n`;
}
