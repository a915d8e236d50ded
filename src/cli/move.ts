/** `understudy move`: moves the databases of a box into PostgreSQL, and back. Main thread. */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { ConfigError } from '../config/config-error.ts';
import { loadConfig } from '../config.ts';
import { openDataKey } from '../std/data-key.ts';
import { makeFolder } from '../std/folder.ts';
import { syncPath } from '../std/synced-path.ts';
import { checkpointPath } from '../storage/lmdb/checkpoint.ts';
import { checkDatabase, databasePaths, findRedoLogs, tryRuns, viewPath } from '../storage/lmdb/stores.ts';
import { refuseHalfRestored } from '../storage/restore-marker.ts';
import type { TableDigest } from '../storage/row-digests.ts';
import { type StoredRow, TruthRefusedError, TruthUnavailableError } from '../storage/shared/truth.ts';
import { claimWriter, WriterClaimedError } from '../storage/writer-claim.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { Progress } from './progress.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Moves the databases of DATA_DIR (accounts, keys, patterns, findings, traces, runs, usage and so on) into the PostgreSQL database
that AUTH_DB_URL names, or back. Captures stay where they are (docs/scale.md). All services that use either must be stopped. Everything is
moved or nothing: rows are compared by count and SHA-256 before they count.

--to postgres needs a database that "understudy migrate" has prepared and that has no rows; its user must own the tables. Afterwards
main.mdb is called main.mdb.moved, and runs.mdb runs.mdb.moved. Remove both when the boxes run. A DATA_DIR that has only runs.mdb adds its
runs and its usage to those of the database. --to folder writes main.mdb and runs.mdb into a DATA_DIR that has none, and removes the view,
shared.mdb. The rows in PostgreSQL stay.

Usage: understudy move --to postgres|folder

  --to WHERE   postgres: from DATA_DIR into AUTH_DB_URL; folder: from AUTH_DB_URL into DATA_DIR

Examples:
  AUTH_DB_URL=postgres://owner:PASSWORD@db.example/understudy understudy move --to postgres
  AUTH_DB_URL=postgres://owner:PASSWORD@db.example/understudy DATA_DIR=new understudy move --to folder
`;

interface MovePlace {
  /** Of the database. Secret. */
  address: string;
  data_dir: string;
  /** Secret; null: no encryption. */
  data_key: Uint8Array | null;
}

/** What was moved, by table. */
type Moved = Map<string, TableDigest>;

/** Takes the number of rows so far. */
type Teller = (rows: number) => void;

/** @returns the exit status */
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
    throw new ConfigError('AUTH_DB_URL', '', 'must be the address of a PostgreSQL database: postgres://…');
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

async function moveIn({ address, data_dir, data_key }: MovePlace, tell: Teller): Promise<Moved> {
  const paths = databasePaths(data_dir, data_key);
  const files = [paths.main, paths.runs].filter((path) => existsSync(path));
  if (files.length === 0) throw new MoveError(`there is no database ${paths.main}; DATA_DIR sets its folder`);
  for (const path of files) {
    if (existsSync(`${path}.moved`)) throw new MoveError(`${path}.moved is there already: move it away`);
    refuseHalfRestored(path);
    checkDatabase(path);
  }
  // What the service has acknowledged in redo logs goes into the file first.
  if (existsSync(paths.runs)) await tryRuns(paths);
  const [{ RowFile }, { fillDatabase, refuseBoxes }, , , { MovedRuns }] = await loadBoth();
  await refuseBoxes(address);
  const main = existsSync(paths.main) ? new RowFile(paths.main, data_key) : null;
  const runs = existsSync(paths.runs) ? new MovedRuns(paths.runs, data_key) : null;
  let moved: Moved;
  try {
    const source = { main: main?.read() ?? null, runs: runs?.read() ?? [] };
    moved = await fillDatabase(address, openDataKey(data_key), source, tell);
  } finally {
    await main?.close();
    await runs?.close();
  }
  // main.mdb is last: while it is there, no box starts.
  for (const path of files.reverse()) {
    renameSync(path, `${path}.moved`);
    rmSync(`${path}-lock`, { force: true });
  }
  for (const path of [checkpointPath(paths.runs), ...findRedoLogs(paths)]) rmSync(path, { force: true });
  syncPath(data_dir);
  return moved;
}

async function moveOut({ address, data_dir, data_key }: MovePlace, tell: Teller): Promise<Moved> {
  const { main, runs } = databasePaths(data_dir);
  if (existsSync(main))
    throw new MoveError(`${main} is there already: set another DATA_DIR, or move it away`);
  if (existsSync(runs))
    throw new MoveError(`${runs} is there already: set another DATA_DIR, or move it away`);
  makeFolder(data_dir);
  const parts = [main, runs].map((path) => `${path}.partial`);
  const discard = () => {
    for (const path of parts) for (const file of [path, `${path}-lock`]) rmSync(file, { force: true });
  };
  discard();
  let moved: Moved;
  try {
    moved = await writeFolder({ address, data_dir, data_key }, tell);
  } catch (thrown) {
    discard();
    throw thrown;
  }
  for (const path of [runs, main]) {
    rmSync(`${path}.partial-lock`, { force: true });
    syncPath(`${path}.partial`);
    renameSync(`${path}.partial`, path);
  }
  for (const path of [viewPath(data_dir), `${viewPath(data_dir)}-lock`]) rmSync(path, { force: true });
  syncPath(data_dir);
  return moved;
}

/** Writes both databases under other names, and compares them with what the database has sent. */
async function writeFolder({ address, data_dir, data_key }: MovePlace, tell: Teller): Promise<Moved> {
  const [{ RowFile }, { readDatabase }, { findDifference, RowDigests }, { isRunRow, isQueriedOnly }] =
    await loadBoth();
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
    const moved: Moved = new Map();
    for (const { path, file, sent, stored } of files) {
      for (const portion of file.read()) stored.add(portion);
      const read = stored.read();
      const difference = findDifference(sent.read(), read);
      if (difference !== null)
        throw new MoveError(`${path} would have other rows of ${difference}: nothing was moved`);
      for (const [table, digest] of read) moved.set(`${path} ${table}`, digest);
    }
    return moved;
  } finally {
    for (const { file } of files) await file.close();
  }
}

/** Loads the modules of both storages late: one loads LMDB, the other the driver of PostgreSQL. */
function loadBoth() {
  return Promise.all([
    import('../storage/lmdb/row-file.ts'),
    import('../storage/postgres/move.ts'),
    import('../storage/row-digests.ts'),
    import('../storage/shared/run-places.ts'),
    import('../storage/lmdb/moved-runs.ts'),
  ]);
}

function describeMoved(moved: Moved, to: string): string {
  let rows = 0;
  for (const table of moved.values()) rows += table.rows;
  const where =
    to === 'postgres'
      ? 'into the database; main.mdb and runs.mdb are called main.mdb.moved and runs.mdb.moved now'
      : 'into main.mdb and runs.mdb';
  return `Moved ${rows} rows of ${moved.size} tables ${where}.\n`;
}
