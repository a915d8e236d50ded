/**
 * A box that cannot share its database does not start. It says why in one line, which contains no password. Test
 * thread, and one process.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { migrateDatabase } from '../../src/storage/postgres/truth.ts';
import { type RunCommand, runCli } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { SECRET } from '../fixtures/control-plane.ts';
import { findFreePort } from '../fixtures/free-port.ts';
import { PostgresServer } from '../fixtures/postgres-server.ts';
import { makeFolder } from '../storage/folder.ts';

let server: PostgresServer;
let empty: string;
let migrated: string;
beforeAll(async () => {
  server = await PostgresServer.start();
  empty = await server.createDatabase();
  migrated = await server.createDatabase();
  await migrateDatabase(migrated);
});
afterAll(() => server.stop());

async function refusal(env: Record<string, string>, run: RunCommand = runHere): Promise<string> {
  const given = { DATA_DIR: makeFolder(), PORT: '0', AUTH_JWT_SECRET: SECRET, ...env };
  const { code, stdout, stderr } = await run(['serve'], given);
  expect({ stdout, isRefused: code !== 0 }).toEqual({ stdout: '', isRefused: true });
  expect(stderr.trim().split('\n')).toHaveLength(1);
  return stderr;
}

it('without the tables, the refusal names the command that makes them', async () => {
  expect(await refusal({ AUTH_DB_URL: empty }, runCli)).toContain('run understudy migrate');
});

it('the service does not start with a wrong password, or without a server', async () => {
  const wrong = new URL(migrated);
  wrong.password = 'hunter2';
  const told = await refusal({ AUTH_DB_URL: wrong.href });
  expect(told).toContain('does not accept the user');
  expect(told).not.toContain('hunter2');
  const away = new URL(migrated);
  away.port = String(await findFreePort());
  expect(await refusal({ AUTH_DB_URL: away.href })).toContain('cannot be reached');
});

it('the service does not start without a secret that all boxes have', async () => {
  expect(await refusal({ AUTH_DB_URL: migrated, AUTH_JWT_SECRET: '' })).toContain('AUTH_JWT_SECRET');
});

it('the service does not start over a folder of the other kind of database, in both directions', async () => {
  const own = makeFolder();
  writeFileSync(join(own, 'main.mdb'), '');
  expect(await refusal({ AUTH_DB_URL: migrated, DATA_DIR: own })).toContain('main.mdb');
  const shared = makeFolder();
  mkdirSync(shared, { recursive: true });
  writeFileSync(join(shared, 'shared.mdb'), '');
  expect(await refusal({ AUTH_DB_URL: 'embedded:', DATA_DIR: shared })).toContain(
    'shares a PostgreSQL database',
  );
  const { code, stderr } = await runHere(['keys', 'list'], { DATA_DIR: shared });
  expect(code).not.toBe(0);
  expect(stderr).toContain('shares a PostgreSQL database');
});

it('migrate makes the tables once, and --check changes nothing', async () => {
  const env = { AUTH_DB_URL: empty, DATA_DIR: makeFolder() };
  expect(await runHere(['migrate', '--check'], env)).toMatchObject({ code: 1, stdout: '' });
  expect(await runHere(['migrate'], env)).toMatchObject({ code: 0 });
  expect((await runHere(['migrate'], env)).stdout).toContain('already');
  expect(await runHere(['migrate', '--check'], env)).toMatchObject({ code: 0 });
  expect(await runHere(['migrate'], { DATA_DIR: makeFolder() })).toMatchObject({ code: 78 });
});
