/**
 * Moves all rows into the shared database of several boxes, and reads all rows out of it. No box may run meanwhile. A
 * move into the database is one transaction, in which each portion is read back and compared. Command line.
 */
import { randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import type { DataKey } from '../../std/data-key.ts';
import { findDifference, RowDigests, type TableDigest } from '../row-digests.ts';
import { RowSealing } from '../shared/row-sealing.ts';
import {
  historyOf,
  isHistory,
  isListings,
  packCounts,
  placeOfRunRow,
  unpackCounts,
  writeCounts,
} from '../shared/run-places.ts';
import { type StoredRow, TruthRefusedError } from '../shared/truth.ts';
import { type DatabaseAddress, explainDatabase, readDatabaseAddress } from './address.ts';
import { makeClient } from './connection.ts';
import { PostgresTruth } from './truth.ts';

const READ_ROWS = 1_000;

/** Other connections of this program to the database. */
const BOXES = `SELECT count(*) AS n FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'understudy' AND pid <> pg_backend_pid()`;
const READ_STATE = `SELECT position, EXISTS (SELECT FROM understudy.rows) OR EXISTS (SELECT FROM understudy.run_rows) AS has_rows
  FROM understudy.state FOR UPDATE`;
const MOVE_ON = `UPDATE understudy.state SET position = position + 1, token = gen_random_uuid()`;
const NAME_COMMIT =
  'INSERT INTO understudy.commits (position, token, box) SELECT position, token, $1 FROM understudy.state';
const GIVEN = 'unnest($1::text[], $2::bytea[], $3::bytea[]) AS r (tbl, key, value)';
const ASKED = 'unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS k (tbl, key, n)';
/** Inserts rows. A row that was removed earlier may be inserted again. */
const INSERT_FOLLOWED = `INSERT INTO understudy.rows AS t (tbl, key, value, position)
  SELECT tbl, key, value, (SELECT position FROM understudy.state) FROM ${GIVEN}
  ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value, position = excluded.position WHERE t.value IS NULL`;
const READ_FOLLOWED = `SELECT t.value FROM ${ASKED}
  LEFT JOIN understudy.rows t ON t.tbl = k.tbl COLLATE "C" AND t.key = k.key ORDER BY k.n`;
const INSERT_QUERIED = `INSERT INTO understudy.run_rows (tbl, key, value) SELECT tbl, key, value FROM ${GIVEN}
  ON CONFLICT DO NOTHING`;
const READ_QUERIED = `SELECT t.value FROM ${ASKED}
  LEFT JOIN understudy.run_rows t ON t.tbl = k.tbl COLLATE "C" AND t.key = k.key ORDER BY k.n`;
const INSERT_COUNTS = `INSERT INTO understudy.counters (tbl, key, name, box, n) SELECT tbl, key, name, $5, n
  FROM unnest($1::text[], $2::bytea[], $3::text[], $4::float8[]) AS c (tbl, key, name, n)`;
const READ_COUNTS = `SELECT k.n AS at, c.name, c.n FROM ${ASKED}
  JOIN understudy.counters c ON c.tbl = k.tbl COLLATE "C" AND c.key = k.key AND c.box = $3 ORDER BY k.n, c.name`;
const HAS_HISTORY = `SELECT EXISTS (
    SELECT FROM understudy.run_rows WHERE tbl IN ('journal', 'snapshots') AND key >= $1 AND key < $1 || '\\xffffffffffffff'::bytea
  ) AS has`;
const ALL_QUERIED = 'SELECT tbl, key, value FROM understudy.run_rows ORDER BY tbl, key';
const ALL_COUNTS =
  'SELECT tbl, key, name, sum(n) AS n FROM understudy.counters GROUP BY tbl, key, name ORDER BY tbl, key, name';

/** The rows to move, in portions. */
export interface MovedRows {
  /** Rows of `main.mdb`; null: there is no such file, and the rows of `runs` are added to the rows of the database. */
  main: Iterable<StoredRow[]> | null;
  /** Rows of `runs.mdb`. */
  runs: Iterable<StoredRow[]>;
}

/** The id of a move, and callbacks for its progress. */
export interface MoveWatch {
  /** A UUID that names the move in the database. */
  id: string;
  /** Called with the number of rows moved so far. */
  onRows(rows: number): void;
  /** Called when all rows are written, before the commit. @param moved digests of the written rows, by table */
  onReady(moved: Map<string, TableDigest>): void;
}

/**
 * Writes all rows into a database, which must have no rows if a main database is moved.
 * @param text the address; its user owns the tables
 * @param key encrypts the values; null: no encryption
 * @returns digests of the stored rows, by table
 * @throws TruthRefusedError, TruthUnavailableError; an error that reading the source throws
 */
export async function fillDatabase(
  text: string,
  key: DataKey | null,
  { main, runs }: MovedRows,
  { id, onRows, onReady }: MoveWatch,
): Promise<Map<string, TableDigest>> {
  // Connecting also sets the key of a database without rows.
  const { identity } = await PostgresTruth.connect(text, key);
  return withClient(text, async (client, { name }) => {
    await client.query('BEGIN');
    const { rows } = await client.query(READ_STATE);
    if (main !== null && (rows[0].position !== '0' || rows[0].has_rows))
      throw new TruthRefusedError(
        `${name} has rows already, which are not of a move from this DATA_DIR: set AUTH_DB_URL to a database without rows`,
      );
    await client.query(MOVE_ON);
    const filling = new Filling(client, new RowSealing(key, identity), name, { id, joins: main === null });
    for (const portion of main ?? []) onRows(await filling.putFollowed(portion));
    for (const portion of runs) onRows(await filling.putRuns(portion));
    await client.query(NAME_COMMIT, [id]);
    const moved = filling.digests.read();
    onReady(moved);
    await client.query('COMMIT');
    return moved;
  });
}

/**
 * Whether the rows of a move are in the database. Waits for the end of the move if its transaction is still open.
 * @throws TruthRefusedError, TruthUnavailableError
 */
export async function hasMoved(text: string, id: string): Promise<boolean> {
  return withClient(text, async (client) => {
    await client.query('BEGIN');
    await client.query('SELECT FROM understudy.state FOR UPDATE');
    const { rows } = await client.query(
      'SELECT EXISTS (SELECT FROM understudy.commits WHERE box = $1) AS has',
      [id],
    );
    await client.query('COMMIT');
    return rows[0].has;
  });
}

/** One move, within its transaction. */
class Filling {
  readonly digests = new RowDigests();
  readonly #client: Client;
  readonly #sealing: RowSealing;
  readonly #name: string;
  readonly #joins: boolean;
  /** The box under whose id the counters are added. */
  readonly #box: string;
  /** Whether the database already has the history of a usage meter. */
  readonly #known = new Map<string, boolean>();
  #rows = 0;

  /** @param joins whether the database has rows of other boxes */
  constructor(
    client: Client,
    sealing: RowSealing,
    name: string,
    { id, joins }: { id: string; joins: boolean },
  ) {
    this.#client = client;
    this.#sealing = sealing;
    this.#name = name;
    this.#box = id;
    this.#joins = joins;
  }

  /** Adds rows that every box follows. @returns the number of rows so far */
  async putFollowed(rows: readonly StoredRow[]): Promise<number> {
    await this.#put(rows, INSERT_FOLLOWED, READ_FOLLOWED);
    return this.#rows;
  }

  /** Adds rows of `runs.mdb`, each at its place (run-places.ts). @returns the number of rows so far */
  async putRuns(rows: readonly StoredRow[]): Promise<number> {
    const placed = { followed: [] as StoredRow[], queried: [] as StoredRow[], counted: [] as StoredRow[] };
    for (const row of rows) {
      const place = placeOfRunRow(row.table, row.key);
      if (place !== 'own' && !(await this.#isLeftOut(row))) placed[place].push(row);
    }
    await this.#put(placed.followed, INSERT_FOLLOWED, READ_FOLLOWED);
    await this.#put(placed.queried, INSERT_QUERIED, READ_QUERIED);
    await this.#count(placed.counted);
    return this.#rows;
  }

  /**
   * Whether a row is not added to the rows of other boxes: the progress of listings, and the history of a usage meter
   * that the database already has. The meter's counters are added, but its interventions of this month are those in the
   * database.
   */
  async #isLeftOut({ table, key }: StoredRow): Promise<boolean> {
    if (!this.#joins) return false;
    if (isListings(table)) return true;
    if (!isHistory(table)) return false;
    const { kind, actor } = historyOf(key);
    if (kind !== 'usage-meter') return false;
    const known = actor.toString('latin1');
    if (!this.#known.has(known))
      this.#known.set(known, (await this.#client.query(HAS_HISTORY, [actor])).rows[0].has);
    return this.#known.get(known)!;
  }

  async #put(rows: readonly StoredRow[], insert: string, read: string): Promise<void> {
    if (rows.length === 0) return;
    const [tables, keys] = [rows.map(({ table }) => table), rows.map((row) => row.key)];
    const values = rows.map((row) => this.#sealing.seal(row));
    const { rowCount } = await this.#client.query(insert, [tables, keys, values]);
    if (rowCount !== rows.length)
      throw new TruthRefusedError(
        `${this.#name} has some of these rows of ${[...new Set(tables)].join(', ')} already, which are not of a move from this ` +
          'DATA_DIR: move runs.mdb away',
      );
    const { rows: stored } = await this.#client.query<{ value: Buffer | null }>(read, [tables, keys]);
    this.#compare(
      rows,
      stored.map(({ value }, at) => this.#sealing.open({ table: tables[at]!, key: keys[at]!, value })),
    );
  }

  async #count(rows: readonly StoredRow[]): Promise<void> {
    if (rows.length === 0) return;
    const counts = rows.flatMap(({ table, key, value }) =>
      Object.entries(unpackCounts(value!)).map(([name, n]) => ({ table, key, name, n })),
    );
    await this.#client.query(INSERT_COUNTS, [
      counts.map(({ table }) => table),
      counts.map(({ key }) => key),
      counts.map(({ name }) => name),
      counts.map(({ n }) => n),
      this.#box,
    ]);
    const asked = [rows.map(({ table }) => table), rows.map(({ key }) => key), this.#box];
    const stored = rows.map((): Record<string, number> => ({}));
    const { rows: found } = await this.#client.query<{ at: string; name: string; n: number }>(
      READ_COUNTS,
      asked,
    );
    for (const { at, name, n } of found) stored[Number(at) - 1]![name] = n;
    const describe = (row: StoredRow, value: Record<string, number>) => ({
      ...row,
      value: writeCounts(value),
    });
    this.#compare(
      rows.map((row) => describe(row, unpackCounts(row.value!))),
      rows.map((row, at) => describe(row, stored[at]!)),
    );
  }

  #compare(sent: readonly StoredRow[], stored: readonly StoredRow[]): void {
    const [a, b] = [new RowDigests(), new RowDigests()];
    a.add(sent);
    b.add(stored);
    const difference = findDifference(a.read(), b.read());
    if (difference !== null)
      throw new TruthRefusedError(
        `${this.#name} gives back other rows of ${difference} than it got: nothing was moved`,
      );
    this.digests.add(sent);
    this.#rows += sent.length;
  }
}

/** Callbacks for the rows of a database, each table in the order of the keys. */
interface RowTakers {
  /** Rows that every box follows. */
  onRows(rows: StoredRow[]): void;
  /** Rows that only a query reads. */
  onQueried(rows: StoredRow[]): void;
  /** Counters, summed over the boxes. */
  onCounted(rows: StoredRow[]): void;
}

/**
 * Reads all rows, in several transactions. They show one state, because no box may use the database meanwhile.
 * @throws TruthRefusedError also while a box uses the database; TruthUnavailableError; what the takers throw
 */
export async function readDatabase(text: string, key: DataKey | null, takers: RowTakers): Promise<void> {
  await refuseBoxes(text);
  const truth = await PostgresTruth.connect(text, key);
  const session = await truth.open(randomUUID(), () => {});
  try {
    await session.load((rows) => takers.onRows(rows));
  } finally {
    await session.close();
  }
  const sealing = new RowSealing(key, truth.identity);
  await withClient(text, async (client) => {
    await readAll<{ tbl: string; key: Buffer; value: Buffer }>(client, ALL_QUERIED, (rows) =>
      takers.onQueried(rows.map(({ tbl: table, key, value }) => sealing.open({ table, key, value }))),
    );
    const counts = new CountRows();
    await readAll<CountRow>(client, ALL_COUNTS, (rows) => takers.onCounted(counts.add(rows)));
    takers.onCounted(counts.end());
  });
}

interface CountRow {
  tbl: string;
  key: Buffer;
  name: string;
  n: number;
}

/** Joins the counters of each row. The counters of a row come one after the other. */
class CountRows {
  #last: { table: string; key: Buffer; counts: Record<string, number> } | null = null;

  /** Adds counters. @returns the rows that are complete */
  add(rows: readonly CountRow[]): StoredRow[] {
    const complete: StoredRow[] = [];
    for (const { tbl: table, key, name, n } of rows) {
      if (this.#last?.table !== table || !this.#last.key.equals(key)) {
        complete.push(...this.end());
        this.#last = { table, key, counts: {} };
      }
      this.#last.counts[name] = n;
    }
    return complete;
  }

  /** Call it after the last counter. @returns the last row; nothing if there were no counters */
  end(): StoredRow[] {
    if (this.#last === null) return [];
    const { table, key, counts } = this.#last;
    return [{ table, key, value: packCounts(counts) }];
  }
}

/** Reads the rows of a query in portions. */
async function readAll<Row extends object>(
  client: Client,
  query: string,
  onRows: (rows: Row[]) => void,
): Promise<void> {
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  await client.query(`DECLARE stored NO SCROLL CURSOR FOR ${query}`);
  for (;;) {
    const { rows } = await client.query<Row>(`FETCH ${READ_ROWS} FROM stored`);
    if (rows.length === 0) break;
    onRows(rows);
  }
  await client.query('COMMIT');
}

/**
 * Checks that no box uses the database, because the writes of a box would be lost.
 * @throws TruthRefusedError if a box uses it; TruthUnavailableError
 */
export async function refuseBoxes(text: string): Promise<void> {
  await withClient(text, async (client, { name }) => {
    const count = Number((await client.query(BOXES)).rows[0].n);
    if (count > 0)
      throw new TruthRefusedError(
        `${name}: stop the boxes that use this database first (${count} connections)`,
      );
  });
}

/**
 * Calls a function with a new connection, and closes the connection afterwards. An open transaction is then rolled
 * back.
 * @throws TruthRefusedError, TruthUnavailableError; other errors of the function, unchanged
 */
async function withClient<Value>(
  text: string,
  work: (client: Client, address: DatabaseAddress) => Promise<Value>,
): Promise<Value> {
  const address = readDatabaseAddress(text);
  // The application name distinguishes this connection from those of boxes (BOXES).
  const client = makeClient(address, undefined, { application_name: 'understudy move' });
  try {
    await client.connect();
    return await work(client, address);
  } catch (thrown) {
    throw thrown instanceof Error && 'severity' in thrown
      ? explainDatabase(thrown, address)
      : explained(thrown, address);
  } finally {
    await client.end().catch(() => {});
  }
}

/**
 * Explains an error of a system call, such as one of the connection. Returns any other error, such as one from reading
 * the source, unchanged.
 */
function explained(thrown: unknown, address: DatabaseAddress): unknown {
  const isOfSystem = thrown instanceof Error && 'syscall' in thrown;
  return isOfSystem ? explainDatabase(thrown, address) : thrown;
}
