/** `understudy move`: moves the main database of a box into PostgreSQL, and back. Main thread. */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { ConfigError } from '../config/config-error.ts';
import { loadConfig } from '../config.ts';
import { openDataKey } from '../std/data-key.ts';
import { makeFolder } from '../std/folder.ts';
import { syncPath } from '../std/synced-path.ts';
import { checkDatabase, databasePaths, viewPath } from '../storage/lmdb/stores.ts';
import { refuseHalfRestored } from '../storage/restore-marker.ts';
import type { TableDigest } from '../storage/row-digests.ts';
import { TruthRefusedError, TruthUnavailableError } from '../storage/shared/truth.ts';
import { claimWriter, WriterClaimedError } from '../storage/writer-claim.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Moves the main database of DATA_DIR (accounts, keys, patterns, findings, traces and so on) into the PostgreSQL database that
AUTH_DB_URL names, or back. Runs, usage and captures stay where they are (docs/scale.md). All services that use either must be
stopped. Everything is moved or nothing: rows are compared by count and SHA-256 for each table before they count.

--to postgres needs a database that "understudy migrate" has prepared and that has no rows; its user must own the tables. Afterwards
main.mdb is called main.mdb.moved. Remove it when the boxes run. --to folder writes main.mdb into a DATA_DIR that has none, and removes
the view, shared.mdb. The rows in PostgreSQL stay.

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
  try {
    const claim = await claimWriter(databasePaths(data_dir).main, { patience_ms: 0 });
    try {
      const moved = to === 'postgres' ? await moveIn(place) : await moveOut(place);
      await io.out(describeMoved(moved, to));
      return EXIT.done;
    } finally {
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

async function moveIn({ address, data_dir, data_key }: MovePlace): Promise<Map<string, TableDigest>> {
  const { main } = databasePaths(data_dir);
  if (!existsSync(main)) throw new MoveError(`there is no database ${main}; DATA_DIR sets its folder`);
  if (existsSync(`${main}.moved`)) throw new MoveError(`${main}.moved is there already: move it away`);
  refuseHalfRestored(main);
  checkDatabase(main);
  const [{ RowFile }, { fillDatabase, refuseBoxes }] = await loadBoth();
  await refuseBoxes(address);
  const file = new RowFile(main, data_key);
  let moved: Map<string, TableDigest>;
  try {
    moved = await fillDatabase(address, openDataKey(data_key), file.read());
  } finally {
    await file.close();
  }
  renameSync(main, `${main}.moved`);
  rmSync(`${main}-lock`, { force: true });
  syncPath(data_dir);
  return moved;
}

async function moveOut({ address, data_dir, data_key }: MovePlace): Promise<Map<string, TableDigest>> {
  const { main } = databasePaths(data_dir);
  if (existsSync(main))
    throw new MoveError(`${main} is there already: set another DATA_DIR, or move it away`);
  makeFolder(data_dir);
  const [{ RowFile }, { readDatabase }, { findDifference, RowDigests }] = await loadBoth();
  const partial = `${main}.partial`;
  const discard = () => {
    for (const path of [partial, `${partial}-lock`]) rmSync(path, { force: true });
  };
  discard();
  const file = new RowFile(partial, data_key);
  const [sent, stored] = [new RowDigests(), new RowDigests()];
  let moved: Map<string, TableDigest>;
  try {
    await readDatabase(address, openDataKey(data_key), (rows) => {
      sent.add(rows);
      file.write(rows);
    });
    for (const portion of file.read()) stored.add(portion);
    moved = stored.read();
    const difference = findDifference(sent.read(), moved);
    if (difference !== null)
      throw new MoveError(`${main} would have other rows of ${difference}: nothing was moved`);
  } catch (thrown) {
    await file.close();
    discard();
    throw thrown;
  }
  await file.close();
  rmSync(`${partial}-lock`, { force: true });
  syncPath(partial);
  renameSync(partial, main);
  for (const path of [viewPath(data_dir), `${viewPath(data_dir)}-lock`]) rmSync(path, { force: true });
  syncPath(data_dir);
  return moved;
}

/** Loads the modules of both storages late: one loads LMDB, the other the driver of PostgreSQL. */
function loadBoth() {
  return Promise.all([
    import('../storage/lmdb/row-file.ts'),
    import('../storage/postgres/move.ts'),
    import('../storage/row-digests.ts'),
  ]);
}

function describeMoved(moved: ReadonlyMap<string, TableDigest>, to: string): string {
  let rows = 0;
  for (const table of moved.values()) rows += table.rows;
  const where =
    to === 'postgres' ? 'into the database; main.mdb is called main.mdb.moved now' : 'into main.mdb';
  return `Moved ${rows} rows of ${moved.size} tables ${where}.\n`;
}
