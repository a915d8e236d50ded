/**
 * Shared runs on a real PostgreSQL server: the common suite, the migration from version 1, query plans, sizes and
 * rights. Test thread.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { openDataKey } from '../../../src/std/data-key.ts';
import { MIGRATIONS, SCHEMA_VERSION } from '../../../src/storage/postgres/schema.ts';
import { checkDatabase, migrateDatabase, PostgresTruth } from '../../../src/storage/postgres/truth.ts';
import { OWNERS, type RunsSession } from '../../../src/storage/shared/runs-truth.ts';
import { PostgresServer, queryDatabase } from '../../fixtures/postgres-server.ts';
import { makeFolder } from '../folder.ts';
import { commit, describeJournal, event } from '../journal-suite.ts';
import { loadFirst, RunsBox } from './runs-box.ts';
import { addressOf, describeRuns, put, row, takeOne, write } from './runs-suite.ts';

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

async function makeDatabase(): Promise<string> {
  const address = await server.createDatabase();
  await migrateDatabase(address);
  return address;
}

async function openSession(address: string, box: string = randomUUID(), key: Uint8Array | null = null) {
  const session = await (await PostgresTruth.connect(address, openDataKey(key))).runs.open(box);
  onTestFinished(() => session.close());
  return session;
}

/** Makes all take-overs count as a minute old. */
const ripen = async (address: string): Promise<void> => {
  await queryDatabase(address, "UPDATE understudy.owners SET taken_at = now() - interval '1 minute'");
};

/** The database of the whole suite. It is emptied for each test, and is then like a new one. */
let emptied: Promise<string> | null = null;
const EMPTY = `
TRUNCATE understudy.owners, understudy.run_rows, understudy.counters, understudy.run_boxes,
  understudy.rows, understudy.commits, understudy.boxes;
UPDATE understudy.state SET position = 0, floor = 0`;

describeRuns('PostgreSQL', async () => {
  emptied ??= makeDatabase();
  const address = await emptied;
  await queryDatabase(address, EMPTY);
  const truth = await PostgresTruth.connect(address);
  return { truth, runs: truth.runs, ripen: () => ripen(address) };
});

// Long, because the suite of the journal with the reference implementation tests the same in fewer steps.
describeJournal(
  'PostgreSQL’s runs',
  async () => {
    const address = await makeDatabase();
    const truth = await PostgresTruth.connect(address);
    const path = join(makeFolder(), 'shared.mdb');
    // Each opening makes another box, and the previous box has taken the actors a moment ago.
    return async () => loadFirst(await RunsBox.open(path, { truth, runs: truth.runs }, { held_ms: 5 }));
  },
  { tags: 'long' },
);

const text = (value: string) => Buffer.from(value);
const count = (key: string, by: number) => ({ table: 'rows:usage', key: text(key), name: 'steps', by });

/** A step of a run as the service stores it: an event, its row, the run’s totals and a count. */
function step(actor: string, term: number, number: number, bytes = 600) {
  const name = `${actor} ${String(number).padStart(6, '0')}`;
  const value = Buffer.alloc(bytes, number);
  return write(actor, term, {
    phases: [
      put(
        { table: 'journal', key: Buffer.concat([addressOf(actor), numberOf(number)]), value },
        { table: 'rows:run_steps', key: text(name), value },
        row('rows:run_totals', actor, `${number} steps`),
      ),
    ],
    counts: [count('2026-11-29', 1)],
  });
}

function numberOf(number: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUIntBE(number, 0, 6);
  return bytes;
}

it('an actor that another box has just taken cannot be taken for a moment, even if the clock jumps', async () => {
  const address = await makeDatabase();
  const [a, b] = [await openSession(address), await openSession(address)];
  await queryDatabase(
    address,
    "CREATE OR REPLACE FUNCTION understudy.held_for() RETURNS interval LANGUAGE sql IMMUTABLE AS $$ SELECT interval '1 hour' $$",
  );
  const term = await takeOne(a, 'run');
  expect(await b.take([addressOf('free'), addressOf('run')])).toEqual([expect.anything(), null]);
  // The box that has the actor may take it again, and continues.
  const again = await takeOne(a, 'run');
  expect(again).toBeGreaterThan(term);
  expect((await a.commit(1, [step('run', again, 1)])).lost).toEqual([]);
  for (const moved of ['+', '-']) {
    await queryDatabase(address, `UPDATE understudy.owners SET taken_at = now() ${moved} interval '2 hours'`);
    expect((await b.take([addressOf('run')]))[0]).not.toBeNull();
  }
});

it('a database of version 1 is migrated with its readers, and programs of another version say so in one line', async () => {
  const address = await server.createDatabase();
  const user = `reader_${process.pid}`;
  const client = new Client({ connectionString: address });
  await client.connect();
  await client.query('CREATE SCHEMA understudy');
  await client.query('CREATE TABLE understudy.schema_version (version int NOT NULL)');
  await client.query(MIGRATIONS[0]!);
  await client.query('INSERT INTO understudy.schema_version VALUES (1)');
  await client.query(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
  await client.query(`GRANT USAGE ON SCHEMA understudy TO ${user}`);
  await client.query(`GRANT SELECT ON ALL TABLES IN SCHEMA understudy TO ${user}`);
  onTestFinished(async () => {
    await client.query(`DROP OWNED BY ${user}`);
    await client.query(`DROP ROLE ${user}`);
    await client.end();
  });
  const line = `the database's schema is version 1, and this program needs ${SCHEMA_VERSION}: run understudy migrate`;
  await expect(PostgresTruth.connect(address)).rejects.toThrow(line);
  await expect(checkDatabase(address)).rejects.toThrow(line);
  expect(await migrateDatabase(address)).toEqual({ from: 1, to: SCHEMA_VERSION });
  await checkDatabase(address);
  expect(await migrateDatabase(address)).toEqual({ from: SCHEMA_VERSION, to: SCHEMA_VERSION });
  // The service's database role needs no further rights.
  const limited = Object.assign(new URL(address), { username: user, password: 'secret' }).href;
  const session = await openSession(limited);
  const term = await takeOne(session, 'run');
  const common = [row('rows:runs', 'r', 'x')];
  expect(await session.commit(1, [{ ...step('run', term, 1), common }])).toMatchObject({ lost: [] });
  expect(await session.readRows('rows:run_totals', [text('run')])).toEqual([text('1 steps')]);
  expect(await session.sumCounts({ table: 'rows:usage', first: text('0'), end: text('9') })).toHaveLength(1);
  await session.tidy();
  await expect(
    queryDatabase(limited, "SELECT understudy.place_rows(gen_random_uuid(), '{}', '{}', '{}')"),
  ).rejects.toThrow(/permission denied/);
  await expect(queryDatabase(limited, 'DELETE FROM understudy.owners')).rejects.toThrow(/permission denied/);
});

it('a data key seals values and events; keys and counts stay readable', async () => {
  const address = await makeDatabase();
  const key = Buffer.alloc(32, 7);
  const a = await openSession(address, randomUUID(), key);
  const term = await takeOne(a, 'run');
  const secret = 'in plain words';
  await a.commit(1, [
    write('run', term, {
      phases: [
        put(
          { table: 'journal', key: Buffer.concat([addressOf('run'), numberOf(1)]), value: text(secret) },
          row('rows:run_steps', 'k', secret),
        ),
      ],
      common: [row('rows:runs', 'k', secret)],
      counts: [count('d', 1)],
    }),
  ]);
  const stored = await queryDatabase(
    address,
    'SELECT value FROM understudy.run_rows UNION ALL SELECT value FROM understudy.rows',
  );
  expect(stored).toHaveLength(3);
  for (const { value } of stored) expect((value as Buffer).includes(secret)).toBe(false);
  expect((await a.take([addressOf('run')]))[0]!.rows.map(({ value }) => String(value))).toEqual([secret]);
  expect(await a.readRows('rows:run_steps', [text('k'), text('missing')])).toEqual([text(secret), null]);
});

it('an actor whose rows are damaged does not keep others from being taken', async () => {
  const address = await makeDatabase();
  const truth = await PostgresTruth.connect(address, openDataKey(Buffer.alloc(32, 7)));
  const box = await RunsBox.open(join(makeFolder(), 'shared.mdb'), { truth, runs: truth.runs });
  onTestFinished(() => box.close());
  for (const key of ['damaged', 'sound']) {
    await box.journal.load('run', key);
    expect(await commit(box.journal, [event('run', key, 1)])).toBeNull();
  }
  await queryDatabase(
    address,
    "UPDATE understudy.run_rows SET value = substring(value FROM 2) WHERE position('damaged'::bytea IN key) > 0",
  );
  const [damaged, sound] = await Promise.allSettled(
    ['damaged', 'sound'].map((key) => box.journal.load('run', key)),
  );
  expect(damaged).toMatchObject({
    reason: { name: 'TruthRefusedError', message: expect.stringMatching(/row of journal .* is damaged/) },
  });
  expect(sound).toMatchObject({ status: 'fulfilled', value: { events: [expect.anything()] } });
});

it('no statement scans a table, and replaced rows stay in their page', async () => {
  const address = await makeDatabase();
  const a = await openSession(address);
  const names = Array.from({ length: 60 }, (_, at) => `run ${at}`);
  const taken = await a.take(names.map(addressOf));
  let batch = 0;
  for (let number = 1; number <= 40; number++)
    await a.commit(
      ++batch,
      names.map((name, at) => step(name, taken[at]!.term, number)),
    );
  const common = [row('rows:runs', 'r', 'x')];
  const last = step('run 1', taken[1]!.term, 41);
  const range = { table: 'journal', first: addressOf('run 1'), end: addressOf('run 2') };
  const removals = [
    { ...range, limit: null },
    { ...range, table: 'rows:run_steps', limit: 3 },
  ];
  await a.commit(++batch, [{ ...last, common, phases: [{ removals, rows: [] }, ...last.phases] }]);
  await ripen(address);
  const b = await openSession(address);
  const [again] = await b.take([addressOf('run 0')]);
  expect(again!.rows).toHaveLength(40);
  expect(await b.readRows('rows:run_totals', [text('run 1')])).toEqual([text('41 steps')]);
  expect(
    await b.readRange({ table: 'rows:run_steps', first: text('run 1 '), end: text('run 1!') }, 5, true),
  ).toHaveLength(5);
  expect((await b.sumCounts({ table: 'rows:usage', first: text('0'), end: text('9') }))[0]!.counts).toEqual({
    steps: 2_401,
  });
  for (const session of [a, b]) await session.close();
  const look = () =>
    queryDatabase(
      address,
      `SELECT relname AS name, seq_tup_read::int AS scanned, idx_tup_fetch::int AS fetched, n_tup_upd::int AS updates, n_tup_hot_upd::int AS in_page,
         n_tup_ins::int AS inserts
       FROM pg_stat_user_tables WHERE schemaname = 'understudy' AND relname IN ('run_states', 'run_histories', 'counters')
       ORDER BY relname`,
    );
  // The server writes its statistics shortly after a connection has ended.
  await expect
    .poll(async () => (await look()).find(({ name }) => name === 'run_histories')!.inserts, {
      timeout: 30_000,
    })
    .toBe(2 * 2_401);
  for (const { name, scanned, fetched, updates, in_page } of await look()) {
    expect(scanned, `${name}`).toBe(0);
    if (name === 'run_histories') expect(fetched).toBeLessThan(500);
    if (name !== 'run_histories')
      expect((in_page as number) / (updates as number), `${name}`).toBeGreaterThan(0.9);
  }
});

it('boxes that take the same actors in any order cause no deadlock', async () => {
  const address = await makeDatabase();
  const boxes = await Promise.all(Array.from({ length: 4 }, () => openSession(address)));
  const names = Array.from({ length: 12 }, (_, at) => `run ${at}`);
  const kept = new Map<string, number>();
  await Promise.all(
    boxes.map(async (session, of) => {
      for (let batch = 1; batch <= 25; batch++) {
        const wanted = names.filter((_, at) => (at * 7 + batch + of) % 3 !== 0);
        if ((batch + of) % 2 === 0) wanted.reverse();
        const taken = await session.take(wanted.map(addressOf));
        const own = wanted.flatMap((name, at) => (taken[at] === null ? [] : [{ name, ...taken[at]! }]));
        const commits = own.map(({ name, term }) => ({
          ...step(name, term, batch),
          common: [row('rows:runs', name, `${of}`)],
        }));
        const { lost } = await session.commit(batch, commits);
        kept.set(`${of}`, (kept.get(`${of}`) ?? 0) + commits.length - lost.length);
      }
    }),
  );
  const [deadlocks] = await queryDatabase(
    address,
    'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()',
  );
  expect(deadlocks).toEqual({ n: 0 });
  const total = [...kept.values()].reduce((sum, n) => sum + n, 0);
  const [sum] = await boxes[0]!.sumCounts({ table: 'rows:usage', first: text('0'), end: text('9') });
  expect(sum!.counts.steps).toBe(total);
  expect(total).toBeGreaterThan(25);
});

it('the database takes batches of many megabytes, and an actor with thousands of events', async () => {
  const address = await makeDatabase();
  const a = await openSession(address);
  const [large, small] = await a.take([addressOf('large'), addressOf('small')]);
  const events = Array.from({ length: 3_000 }, (_, at) => ({
    table: 'journal',
    key: Buffer.concat([addressOf('large'), numberOf(at + 1)]),
    value: Buffer.alloc(1_500, at),
  }));
  const blob = {
    table: 'snapshots',
    key: Buffer.concat([addressOf('small'), numberOf(0)]),
    value: Buffer.alloc(8 << 20, 1),
  };
  const outcome = await a.commit(1, [
    write('large', large!.term, { phases: [put(...events)] }),
    write('small', small!.term, { phases: [put(blob)] }),
  ]);
  expect(outcome).toEqual({ lost: [], position: null });
  const again = await a.take([addressOf('large'), addressOf('small')]);
  expect(again[0]!.rows.map(({ key, value }) => [key.readUIntBE(key.length - 6, 6), value![0]])).toEqual(
    events.map((_, at) => [at + 1, at % 256]),
  );
  expect(again[1]!.rows[0]!.value!.equals(blob.value)).toBe(true);
});

it('only the counts remain of a box that has not been seen for a week', async () => {
  const address = await makeDatabase();
  const [a, b, c] = [await openSession(address), await openSession(address), await openSession(address)];
  const add = async (session: RunsSession, batch: number, actor: string) =>
    session.commit(batch, [step(actor, await takeOne(session, actor), 1)]);
  await add(a, 1, 'run a');
  await add(b, 1, 'run b');
  await add(c, 1, 'run c');
  const age = (where: string) =>
    queryDatabase(
      address,
      `UPDATE understudy.run_boxes SET at = now() - interval '8 days' WHERE box IN (
      SELECT box FROM understudy.owners WHERE actor ${where})`,
    );
  const sum = async () =>
    (await c.sumCounts({ table: 'rows:usage', first: text('0'), end: text('9') }))[0]!.counts.steps;
  for (const gone of ['a', 'b']) {
    await age(`= '\\x${addressOf(`run ${gone}`).toString('hex')}'`);
    await c.tidy();
    expect(await sum()).toBe(3);
  }
  const boxes = 'SELECT count(*)::int AS n FROM understudy.run_boxes';
  expect(await queryDatabase(address, boxes)).toEqual([{ n: 1 }]);
  expect(await queryDatabase(address, 'SELECT count(*)::int AS n FROM understudy.counters')).toEqual([
    { n: 2 },
  ]);
  // The box was only paused, but its further commits are refused.
  await expect(a.commit(2, [step('run a', 1, 2)])).rejects.toMatchObject({ name: 'TruthUnavailableError' });
  // A box that only reads also counts as seen.
  await age('IS NOT NULL');
  await c.tidy();
  expect((await add(c, 2, 'run d')).lost).toEqual([]);
  expect(await sum()).toBe(4);
});

it('an actor that was taken a week ago belongs to no box, and its former box is told so', async () => {
  const address = await makeDatabase();
  const truth = await PostgresTruth.connect(address);
  const follower = await truth.open(randomUUID(), () => {});
  onTestFinished(() => follower.close());
  const [a, b] = [await openSession(address), await openSession(address)];
  const [old, recent] = await a.take([addressOf('old'), addressOf('recent')]);
  const oldRow = `actor = '\\x${addressOf('old').toString('hex')}'`;
  await queryDatabase(
    address,
    `UPDATE understudy.owners SET taken_at = now() - interval '8 days' WHERE ${oldRow}`,
  );
  await b.tidy();
  const { rows } = await follower.follow(0);
  expect(rows!.map(({ table, key, value }) => [table, key.subarray(0, -6), value])).toEqual([
    [OWNERS, addressOf('old'), null],
  ]);
  expect(rows![0]!.key.readUIntBE(addressOf('old').length, 6)).toBeGreaterThan(old!.term);
  const commits = [step('old', old!.term, 1), step('recent', recent!.term, 1)];
  expect((await a.commit(1, commits)).lost).toEqual([0]);
  const [again] = await a.take([addressOf('old')]);
  expect(again).toMatchObject({ position: null, rows: [] });
  expect((await a.commit(2, [step('old', again!.term, 1)])).lost).toEqual([]);
});
