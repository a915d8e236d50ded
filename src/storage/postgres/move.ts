/**
 * Moves all rows into the database of several boxes, and reads all of them out of it. No box runs meanwhile. Command line.
 */
import { randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import type { DataKey } from '../../std/data-key.ts';
import { findDifference, RowDigests, type TableDigest } from '../row-digests.ts';
import { RowSealing } from '../shared/row-sealing.ts';
import { type StoredRow, TruthRefusedError } from '../shared/truth.ts';
import { type DatabaseAddress, explainDatabase, readDatabaseAddress } from './address.ts';
import { makeClient } from './connection.ts';
import { PostgresTruth } from './truth.ts';

const READ_ROWS = 1_000;

/** Other connections of this program to the database. */
const BOXES = `SELECT count(*) AS n FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'understudy' AND pid <> pg_backend_pid()`;
const INSERT = `INSERT INTO understudy.rows (tbl, key, value, position)
  SELECT tbl, key, value, 1 FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS r (tbl, key, value)`;

/**
 * Writes all rows into a database without rows: all or nothing. Before they count, they are read back and compared.
 * @param text the address; its user owns the tables
 * @param key seals the values; null: they stay readable
 * @returns what was stored, by table
 * @throws TruthRefusedError, TruthUnavailableError; Error of the source
 */
export async function fillDatabase(
  text: string,
  key: DataKey | null,
  source: Iterable<StoredRow[]>,
): Promise<Map<string, TableDigest>> {
  // It also chooses the key of a database without rows.
  const { identity } = await PostgresTruth.connect(text, key);
  return withClient(text, async (client, { name }) => {
    await client.query('BEGIN');
    const { rows } = await client.query(
      'SELECT position, EXISTS (SELECT FROM understudy.rows) AS has_rows FROM understudy.state FOR UPDATE',
    );
    if (rows[0].position !== '0' || rows[0].has_rows)
      throw new TruthRefusedError(
        `${name} has rows already: name a database without, or, if an earlier move was cut short after it had stored them, ` +
          'move main.mdb away',
      );
    const sealing = new RowSealing(key, identity);
    const digests = new RowDigests();
    for (const portion of source) {
      digests.add(portion);
      await client.query(INSERT, [
        portion.map(({ table }) => table),
        portion.map((row) => row.key),
        portion.map((row) => sealing.seal(row)),
      ]);
    }
    const stored = digests.read();
    const difference = findDifference(stored, await readBack(client, sealing));
    if (difference !== null)
      throw new TruthRefusedError(
        `${name} gives back other rows of ${difference} than it got: nothing was moved`,
      );
    await client.query('UPDATE understudy.state SET position = 1, token = gen_random_uuid()');
    await client.query(
      'INSERT INTO understudy.commits (position, token, box) SELECT 1, token, $1 FROM understudy.state',
      [randomUUID()],
    );
    await client.query('COMMIT');
    return stored;
  });
}

/**
 * Reads all rows as of one position.
 * @throws TruthRefusedError also while a box uses the database; TruthUnavailableError; what `onRows` throws
 */
export async function readDatabase(
  text: string,
  key: DataKey | null,
  onRows: (rows: StoredRow[]) => void,
): Promise<void> {
  await refuseBoxes(text);
  const session = await (await PostgresTruth.connect(text, key)).open(randomUUID(), () => {});
  try {
    await session.load(onRows);
  } finally {
    await session.close();
  }
}

/** @throws TruthRefusedError while a box uses the database: what it writes now would be lost */
export async function refuseBoxes(text: string): Promise<void> {
  await withClient(text, async (client, { name }) => {
    const count = Number((await client.query(BOXES)).rows[0].n);
    if (count > 0) throw new TruthRefusedError(`${name}: ${count} boxes use it, stop them first`);
  });
}

async function readBack(client: Client, sealing: RowSealing): Promise<Map<string, TableDigest>> {
  const digests = new RowDigests();
  await client.query(
    'DECLARE stored NO SCROLL CURSOR FOR SELECT tbl, key, value FROM understudy.rows ORDER BY tbl, key',
  );
  for (;;) {
    const { rows } = await client.query<{ tbl: string; key: Buffer; value: Buffer }>(
      `FETCH ${READ_ROWS} FROM stored`,
    );
    if (rows.length === 0) return digests.read();
    digests.add(rows.map(({ tbl: table, key, value }) => sealing.open({ table, key, value })));
  }
}

/** @throws TruthRefusedError, TruthUnavailableError; a transaction that is open is undone */
async function withClient<Value>(
  text: string,
  work: (client: Client, address: DatabaseAddress) => Promise<Value>,
): Promise<Value> {
  const address = readDatabaseAddress(text);
  const client = makeClient(address);
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

/** Errors of the source stay as they are; those of the connection are explained. */
function explained(thrown: unknown, address: DatabaseAddress): unknown {
  const isOfSystem = thrown instanceof Error && 'syscall' in thrown;
  return isOfSystem ? explainDatabase(thrown, address) : thrown;
}
