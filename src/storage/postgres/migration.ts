/**
 * Upgrades the database's schema to this version (command line), and checks the version (each connection; any thread).
 * There are no downgrades.
 */
import type { Client } from 'pg';
import { TruthRefusedError } from '../shared/truth.ts';
import { MIGRATIONS, SCHEMA_VERSION } from './schema.ts';

/** Key of the advisory lock, with which concurrent migrations run one after the other. */
const LOCK = 7_210_931_447;

const READ_VERSION = 'SELECT version FROM understudy.schema_version';

/**
 * Runs the missing migrations in one transaction.
 * @returns the versions before and after; version 0 means no schema
 * @throws TruthRefusedError if the schema is newer than SCHEMA_VERSION; a driver error
 */
export async function migrate(client: Client): Promise<{ from: number; to: number }> {
  await client.query('BEGIN');
  try {
    await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
    await client.query('CREATE SCHEMA IF NOT EXISTS understudy');
    await client.query('CREATE TABLE IF NOT EXISTS understudy.schema_version (version int NOT NULL)');
    const from = (await client.query(READ_VERSION)).rows[0]?.version ?? 0;
    refuseNewer(from);
    for (const migration of MIGRATIONS.slice(from)) await client.query(migration);
    await client.query('DELETE FROM understudy.schema_version');
    await client.query('INSERT INTO understudy.schema_version VALUES ($1)', [SCHEMA_VERSION]);
    await client.query('COMMIT');
    return { from, to: SCHEMA_VERSION };
  } catch (thrown) {
    await client.query('ROLLBACK').catch(() => {});
    throw thrown;
  }
}

/**
 * Checks that the schema's version is SCHEMA_VERSION.
 * @throws TruthRefusedError if the version is another; a driver error
 */
export async function checkSchema(client: Client): Promise<void> {
  const version: number = (await client.query(READ_VERSION)).rows[0]?.version ?? 0;
  refuseNewer(version);
  if (version < SCHEMA_VERSION)
    throw new TruthRefusedError(
      `the database's schema is version ${version}, and this program needs ${SCHEMA_VERSION}: run understudy migrate`,
    );
}

function refuseNewer(version: number): void {
  if (version > SCHEMA_VERSION)
    throw new TruthRefusedError(
      `the database's schema is version ${version}, and this program knows ${SCHEMA_VERSION}: install a newer version of the program`,
    );
}
