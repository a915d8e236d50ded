/** deploy/postgres-rights.sql: its rights are enough for everything that a box does, and allow no more. Test thread. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { migrateDatabase, PostgresTruth } from '../../src/storage/postgres/truth.ts';
import { PostgresServer, queryDatabase } from '../fixtures/postgres-server.ts';
import { makeFolder } from '../storage/folder.ts';
import { SharedBox } from '../storage/shared/shared-box.ts';

const FILE = readFileSync(
  fileURLToPath(new URL('../../deploy/postgres-rights.sql', import.meta.url)),
  'utf8',
);
/** Differs from the name in the file, because users belong to the whole server, which other tests use. */
const SERVICE = `service_${process.pid}`;
const DENIED = '42501';

let server: PostgresServer;
let owner: string;
let service: string;
beforeAll(async () => {
  server = await PostgresServer.start();
  owner = await server.createDatabase();
  await migrateDatabase(owner);
  await queryDatabase(owner, `CREATE ROLE ${SERVICE} LOGIN PASSWORD 'x'`);
  service = Object.assign(new URL(owner), { username: SERVICE, password: 'x' }).href;
  expect(FILE.split("'understudy_service'")).toHaveLength(2);
  // The file can be run again.
  for (let at = 0; at < 2; at++)
    await queryDatabase(owner, FILE.replace("'understudy_service'", `'${SERVICE}'`));
});
afterAll(async () => {
  await queryDatabase(owner, `DROP OWNED BY ${SERVICE}`);
  await queryDatabase(owner, `DROP ROLE ${SERVICE}`);
  await server.stop();
});

/** @returns the error's SQLSTATE; null if the statement ran */
async function tryAsService(statement: string): Promise<string | null> {
  return queryDatabase(service, statement).then(
    () => null,
    (thrown: { code?: string }) => thrown.code ?? String(thrown),
  );
}

it('a box works with the rights, and deletes old rows', async () => {
  const truth = await PostgresTruth.connect(service);
  const box = await SharedBox.open(join(makeFolder(), 'main.mdb'), truth);
  onTestFinished(() => box.close());
  await box.tables.transact((tx) =>
    tx.write({ op: 'put', table: 'users', row: ['u'], value: { name: 'x' } }),
  );
  expect(box.tables.get('users', ['u'])).toEqual({ name: 'x' });
  const session = await truth.open('00000000-0000-4000-8000-000000000001', () => {});
  onTestFinished(() => session.close());
  await session.tidy();
  const live = await truth.openLive('00000000-0000-4000-8000-000000000001');
  onTestFinished(() => live.close());
  expect(await live.beat()).toEqual(['00000000-0000-4000-8000-000000000001']);
  const { epoch } = await live.readRates(0);
  expect(await live.writeRates(epoch, [{ key: 1, base: 0, data: '[]' }])).toEqual([1]);
  await live.want(['org']);
  expect(await live.findWanted(['org'])).toEqual(['org']);
  const event = { name: 'step', project_id: null, run_id: 'r', at_ms: 1, data: '{}' };
  await live.write([{ org_id: 'org', has_lost: true, forgets: [], events: [event] }]);
  expect(await live.read(new Map([['org', 0]]), 10)).toMatchObject([{ stored: [{ event }] }]);
  await live.tidy();
  await live.expire(2);
});

it('a box cannot work without the rights', async () => {
  const address = await server.createDatabase();
  await migrateDatabase(address);
  const stranger = Object.assign(new URL(address), { username: SERVICE, password: 'x' }).href;
  await expect(PostgresTruth.connect(stranger)).rejects.toThrow('lacks a right');
});

const relations = "SELECT relname FROM pg_class WHERE relnamespace = 'understudy'::regnamespace";

it('the user cannot change a table directly, or a schema', async () => {
  const tables = await queryDatabase(owner, `${relations} AND relkind IN ('r', 'p')`);
  expect(tables.length).toBeGreaterThan(3);
  for (const { relname } of tables)
    for (const statement of ['DELETE FROM', 'TRUNCATE', 'DROP TABLE'])
      expect(await tryAsService(`${statement} understudy.${relname}`), `${statement} ${relname}`).toBe(
        DENIED,
      );
  for (const statement of [
    'UPDATE understudy.state SET position = 0',
    "INSERT INTO understudy.rows VALUES ('users', '', '', 1)",
    'CREATE TABLE understudy.mine (a int)',
    'DROP SCHEMA understudy CASCADE',
    'DROP FUNCTION understudy.sweep',
    "COPY understudy.rows FROM PROGRAM 'true'",
  ])
    expect(await tryAsService(statement), statement).toBe(DENIED);
});

it('the user cannot read tables that only functions need', async () => {
  const hidden = await queryDatabase(
    owner,
    `${relations} AND relkind = 'r' AND relname ~ 'boxes$|^live_|^pulses'`,
  );
  expect(hidden.length).toBeGreaterThan(0);
  for (const { relname } of hidden)
    expect(await tryAsService(`SELECT FROM understudy.${relname}`), String(relname)).toBe(DENIED);
  expect(await tryAsService('SELECT FROM understudy.rows')).toBe(null);
});

it('the user can call only functions with the rights of the owner, and other users can call none', async () => {
  const functions = await queryDatabase(
    owner,
    `SELECT oid::regprocedure AS name, prosecdef AS acts_as_owner, has_function_privilege('${SERVICE}', oid, 'EXECUTE') AS may,
       has_function_privilege('pg_monitor', oid, 'EXECUTE') AS others_may
     FROM pg_proc WHERE pronamespace = 'understudy'::regnamespace`,
  );
  expect(functions.length).toBeGreaterThan(3);
  for (const { name, acts_as_owner, may, others_may } of functions)
    expect({ name, may, others_may }).toEqual({ name, may: acts_as_owner, others_may: false });
});
