/**
 * `understudy move` that is killed: the next one completes it or starts again, and nothing is lost or doubled. A
 * command is killed before each of its changes in DATA_DIR, and while it waits for the database. Own processes.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { migrateDatabase } from '../../src/storage/postgres/truth.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { PostgresServer, queryDatabase } from '../fixtures/postgres-server.ts';
import { makeFolder } from '../storage/folder.ts';

/** Kills the process before its change number KILL_AT of a file below KILL_IN. */
const KILLER = `
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
let changes = 0;
for (const name of ['renameSync', 'rmSync', 'writeFileSync']) {
  const real = fs[name];
  fs[name] = (path, ...rest) => {
    if (String(path).startsWith(process.env.KILL_IN) && ++changes === Number(process.env.KILL_AT))
      process.kill(process.pid, 'SIGKILL');
    return real(path, ...rest);
  };
}
syncBuiltinESMExports();
`;

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

type Place = Record<'AUTH_DB_URL' | 'DATA_DIR', string>;

async function makePlace(): Promise<Place> {
  const AUTH_DB_URL = await server.createDatabase();
  await migrateDatabase(AUTH_DB_URL);
  return { AUTH_DB_URL, DATA_DIR: makeFolder() };
}

async function fill({ DATA_DIR }: Place): Promise<void> {
  const main = new LmdbTables(join(DATA_DIR, 'main.mdb'), 'disk', null);
  await main.transact((tx) => tx.write({ op: 'put', table: 'users', row: ['u'], value: { name: 'ann' } }));
  await main.close();
  const runs = new LmdbTables(join(DATA_DIR, 'runs.mdb'), 'process', null);
  await runs.transact((tx) => {
    tx.write({ op: 'put', table: 'run_steps', row: ['o', 'r', 1], value: 'step' });
    tx.write({ op: 'add', table: 'usage', row: ['o', 'd'], counts: { steps: 3 } });
  });
  await runs.close();
}

/** The numbers of rows and counts in the database. */
async function readStored({ AUTH_DB_URL }: Place): Promise<unknown> {
  const [row] = await queryDatabase(
    AUTH_DB_URL,
    `SELECT (SELECT count(*)::int FROM understudy.rows) AS followed, (SELECT count(*)::int FROM understudy.run_rows) AS queried,
      (SELECT sum(n)::int FROM understudy.counters) AS counted`,
  );
  return row;
}

function readFolder({ DATA_DIR }: Place): unknown {
  const [main, runs] = ['main.mdb', 'runs.mdb'].map(
    (name) => new LmdbTables(join(DATA_DIR, name), 'process', null),
  ) as [LmdbTables, LmdbTables];
  const read = [
    main.get('users', ['u']),
    runs.get('run_steps', ['o', 'r', 1]),
    runs.get('usage', ['o', 'd']),
  ];
  return Promise.all([main.close(), runs.close()]).then(() => read);
}

/** @returns whether `move` was killed before its change of this number; a `move` with fewer changes must succeed */
async function killMove(place: Place, to: string, at: number): Promise<boolean> {
  const env = {
    ...place,
    NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(KILLER)}`,
    KILL_AT: `${at}`,
    KILL_IN: place.DATA_DIR,
  };
  const { code, signal, stderr } = await new CliChild(['move', '--to', to], { env }).ended;
  if (signal === null) expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return signal === 'SIGKILL';
}

const STORED = { followed: 1, queried: 1, counted: 3 };
const ROWS = [{ name: 'ann' }, 'step', { steps: 3 }];

it('a move to PostgreSQL that is killed before any change of a file is completed by the next one', {
  tags: 'long',
}, async () => {
  const told = new Set<boolean>();
  for (let at = 1; ; at++) {
    const place = await makePlace();
    await fill(place);
    if (!(await killMove(place, 'postgres', at))) break;
    const next = await runHere(['move', '--to', 'postgres'], place);
    expect(next, `after change ${at}`).toMatchObject({ code: 0, stderr: '' });
    expect(next.stdout.split('\n')).toHaveLength(2);
    told.add(next.stdout.startsWith('An interrupted move had stored everything'));
    expect(await readStored(place)).toEqual(STORED);
    expect(readdirSync(place.DATA_DIR).filter((name) => /\.mdb$|json/.test(name))).toEqual([]);
    expect(readdirSync(place.DATA_DIR)).toEqual(expect.arrayContaining(['main.mdb.moved', 'runs.mdb.moved']));
  }
  expect(told).toEqual(new Set([true, false]));
});

it('a move to a folder that is killed before any change of a file is completed by the next one', {
  tags: 'long',
}, async () => {
  const source = await makePlace();
  await fill(source);
  expect(await runHere(['move', '--to', 'postgres'], source)).toMatchObject({ code: 0 });
  for (let at = 1; ; at++) {
    const place = { ...source, DATA_DIR: makeFolder() };
    if (!(await killMove(place, 'folder', at))) break;
    const next = await runHere(['move', '--to', 'folder'], place);
    expect(next, `after change ${at}`).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(place.DATA_DIR).filter((name) => /partial|json/.test(name))).toEqual([]);
    expect(await readFolder(place)).toEqual(ROWS);
  }
});

it.each(['rows', 'commits'])(
  'a move to PostgreSQL that is killed while it waits for the table %s is started again by the next one',
  async (table) => {
    const place = await makePlace();
    await fill(place);
    const holder = new Client({ connectionString: place.AUTH_DB_URL });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query(`LOCK TABLE understudy.${table} IN SHARE MODE`);
    const child = new CliChild(['move', '--to', 'postgres'], { env: { ...place } });
    const waits = async () =>
      (
        await holder.query(
          'SELECT FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())',
        )
      ).rowCount;
    await expect.poll(waits).toBeGreaterThan(0);
    child.process.kill('SIGKILL');
    await child.ended;
    await holder.query('COMMIT');
    await holder.end();
    expect(await runHere(['move', '--to', 'postgres'], place)).toMatchObject({ code: 0, stderr: '' });
    expect(await readStored(place)).toEqual(STORED);
    expect(existsSync(join(place.DATA_DIR, 'main.mdb'))).toBe(false);
  },
);

it('a killed move is not completed if its files have changed since, and one line says so', {
  tags: 'long',
}, async () => {
  const place = await makePlace();
  await fill(place);
  // Kills the move at one change after another until the note of the move exists. Then the move has been committed.
  let at = 1;
  for (; existsSync(join(place.DATA_DIR, 'move.json')) === false; at++) await killMove(place, 'postgres', at);
  const runs = new LmdbTables(join(place.DATA_DIR, 'main.mdb'), 'disk', null);
  await runs.transact((tx) => tx.write({ op: 'put', table: 'users', row: ['v'], value: { name: 'bob' } }));
  await runs.close();
  const next = await runHere(['move', '--to', 'postgres'], place);
  expect(next.code).toBe(1);
  expect(next.stderr).toMatch(/^understudy: .*main\.mdb was changed or made since[^\n]*\n$/);
  expect(existsSync(join(place.DATA_DIR, 'main.mdb'))).toBe(true);
  expect(await readStored(place)).toEqual(STORED);
});
