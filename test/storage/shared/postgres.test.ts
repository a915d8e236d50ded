/** The shared store on a real PostgreSQL server: the suites of all stores, several boxes, and refusals. Test thread. */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createManualClock } from '../../../src/std/clock.ts';
import { openDataKey } from '../../../src/std/data-key.ts';
import { explainDatabase, readDatabaseAddress } from '../../../src/storage/postgres/address.ts';
import { SCHEMA_VERSION } from '../../../src/storage/postgres/schema.ts';
import { migrateDatabase, PostgresTruth } from '../../../src/storage/postgres/truth.ts';
import { TruthRefusedError } from '../../../src/storage/shared/truth.ts';
import { TEST_CERTIFICATE } from '../../fixtures/certificate.ts';
import { findFreePort } from '../../fixtures/free-port.ts';
import { PostgresServer, queryDatabase } from '../../fixtures/postgres-server.ts';
import { makeFolder } from '../folder.ts';
import { describeJournal } from '../journal-suite.ts';
import { describeTables } from '../tables-suite.ts';
import { SharedBox } from './shared-box.ts';

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

/** An empty database with the present schema. */
async function makeDatabase(): Promise<string> {
  const address = await server.createDatabase();
  await migrateDatabase(address);
  return address;
}

const PASSWORD = 'secret';
let users = 0;

/** Makes a user with the rights that the docs name. @returns the database's address for this user */
async function makeUser(address: string): Promise<string> {
  const name = `service_${process.pid}_${++users}`;
  await queryDatabase(address, `CREATE ROLE ${name} LOGIN PASSWORD '${PASSWORD}'`);
  onTestFinished(async () => {
    await queryDatabase(address, `DROP OWNED BY ${name}`);
    await queryDatabase(address, `DROP ROLE ${name}`);
  });
  const [found] = await queryDatabase(address, "SELECT FROM pg_namespace WHERE nspname = 'understudy'");
  if (found !== undefined) {
    await queryDatabase(address, `GRANT USAGE ON SCHEMA understudy TO ${name}`);
    await queryDatabase(address, `GRANT SELECT ON ALL TABLES IN SCHEMA understudy TO ${name}`);
  }
  return Object.assign(new URL(address), { username: name, password: PASSWORD }).href;
}

const viewPath = () => join(makeFolder(), 'main.mdb');

async function openBox(
  address: string,
  path = viewPath(),
  key: Uint8Array | null = null,
): Promise<SharedBox> {
  const box = await SharedBox.open(path, await PostgresTruth.connect(address, openDataKey(key)), {}, key);
  onTestFinished(() => box.close());
  return box;
}

describeTables('PostgreSQL', async () =>
  SharedBox.prepareTables(viewPath(), await PostgresTruth.connect(await makeDatabase())),
);

// Long, because the suite of the tables tests the same code in fewer steps.
describeJournal(
  'PostgreSQL',
  async () => {
    const truth = await PostgresTruth.connect(await makeDatabase());
    const path = viewPath();
    return async () => (await SharedBox.open(path, truth)).journal;
  },
  { tags: 'long' },
);

describe('two boxes over one database', () => {
  it('see each other’s commits without polling', async () => {
    const address = await makeDatabase();
    const [a, b] = [await openBox(address), await openBox(address)];
    await a.tables.transact((tx) =>
      tx.write({ op: 'put', table: 'users', row: ['u'], value: { name: 'x' } }),
    );
    expect(await b.follower.reach(a.follower.position, 60_000)).toBe(true);
    expect(b.tables.get('users', ['u'])).toEqual({ name: 'x' });
    await b.tables.transact((tx) => tx.write({ op: 'remove', table: 'users', row: ['u'] }));
    expect(await a.follower.reach(b.follower.position, 60_000)).toBe(true);
    expect(a.tables.get('users', ['u'])).toBeUndefined();
  });

  it('keep a name unique, and count each of their increments once', async () => {
    const address = await makeDatabase();
    const boxes = [await openBox(address), await openBox(address)];
    const claim = (box: SharedBox, who: string) =>
      box.tables.transact((tx) => {
        if (tx.get('names', ['n']) !== undefined) return false;
        tx.write({ op: 'put', table: 'names', row: ['n'], value: who });
        return true;
      });
    const claims = await Promise.all(boxes.map((box, at) => claim(box, `box ${at}`)));
    expect(claims.filter(Boolean)).toHaveLength(1);
    const add = (box: SharedBox) =>
      box.tables.transact((tx) => tx.write({ op: 'add', table: 'counts', row: ['c'], counts: { n: 1 } }));
    await Promise.all(Array.from({ length: 40 }, (_, at) => add(boxes[at % 2]!)));
    const [a] = boxes as [SharedBox];
    await a.follower.reach(boxes[1]!.follower.position, 60_000);
    expect(a.tables.get('counts', ['c'])).toEqual({ n: 40 });
  });

  it('refuse a transaction that read a range to which the other box added a row', async () => {
    const address = await makeDatabase();
    const boxes = [await openBox(address), await openBox(address)];
    // The rule is at most one row in the range. Each box checks this, and adds a row.
    const add = (box: SharedBox, at: number) =>
      box.tables.transact((tx) => {
        if ([...tx.range('members', { prefix: ['org'], limit: 5 })].length > 0) return;
        tx.write({ op: 'put', table: 'members', row: ['org', at], value: at });
      });
    await Promise.all(Array.from({ length: 20 }, (_, at) => add(boxes[at % 2]!, at)));
    for (const box of boxes) {
      await box.follower.reach(Math.max(...boxes.map(({ follower }) => follower.position)), 60_000);
      expect([...box.tables.range('members', { prefix: ['org'] })]).toHaveLength(1);
    }
  });

  it('continue each other’s actors; a box that has not noticed its loss gets an error', async () => {
    const address = await makeDatabase();
    const [a, b] = [await openBox(address), await openBox(address)];
    const commit = (box: SharedBox, seq: number) =>
      new Promise<Error | null>((resolve) =>
        box.journal.commit(
          [{ type: 'event', kind: 'k', key: 'a', seq, event: Buffer.from(`${seq}`) }],
          resolve,
        ),
      );
    expect(await commit(a, 1)).toBeNull();
    await b.follower.reach(a.follower.position, 60_000);
    expect(await commit(b, 2)).toBeNull();
    expect(await commit(a, 2)).toMatchObject({ name: 'StaleActorError' });
    expect(a.journal.load('k', 'a').events.map(String)).toEqual(['49', '50']);
    expect(await commit(a, 3)).toBeNull();
  });
});

describe('a view', () => {
  it('loads the rows first, and later continues at its last position', async () => {
    const address = await makeDatabase();
    const a = await openBox(address);
    for (let n = 0; n < 5; n++)
      await a.tables.transact((tx) => {
        for (let i = 0; i < 900; i++) tx.write({ op: 'put', table: 't', row: [n, i], value: i });
      });
    await a.tables.transact((tx) => tx.write({ op: 'trim', table: 't', row: [0], limit: 10_000 }));
    const path = viewPath();
    const b = await openBox(address, path);
    expect([...b.tables.range('t', { prefix: [] })]).toHaveLength(3_600);
    await b.close();
    await a.tables.transact((tx) => tx.write({ op: 'trim', table: 't', row: [1], limit: 100 }));
    const again = await openBox(address, path);
    expect([...again.tables.range('t', { prefix: [] })]).toHaveLength(3_500);
  });

  it('loads everything again if the removals since its last position were forgotten', async () => {
    const address = await makeDatabase();
    const path = viewPath();
    const [a, b] = [await openBox(address), await openBox(address, path)];
    await a.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: ['old'], value: 1 }));
    await b.follower.reach(1, 60_000);
    await b.close();
    await a.tables.transact((tx) => tx.write({ op: 'remove', table: 't', row: ['old'] }));
    await a.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: ['new'], value: 2 }));
    await queryDatabase(address, "SELECT understudy.prune('0 seconds')");
    await queryDatabase(address, 'SELECT understudy.sweep()');
    expect(await queryDatabase(address, 'SELECT count(*)::int AS n FROM understudy.rows')).toEqual([
      { n: 1 },
    ]);
    const again = await openBox(address, path);
    expect([...again.tables.range('t', { prefix: [] })].map(({ row }) => row)).toEqual([['new']]);
  });

  it('loads everything from a database that was restored from a backup', async () => {
    const address = await makeDatabase();
    const path = viewPath();
    const a = await openBox(address, path);
    await a.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: ['lost'], value: 1 }));
    await a.close();
    // The backup is older than the commit. Then other boxes make as many commits as were lost.
    await queryDatabase(address, 'DELETE FROM understudy.commits');
    await queryDatabase(address, "UPDATE understudy.rows SET key = '\\x026f7468657200'");
    await queryDatabase(address, 'UPDATE understudy.state SET token = gen_random_uuid()');
    const again = await openBox(address, path);
    expect([...again.tables.range('t', { prefix: [] })].map(({ row }) => row)).toEqual([['other']]);
  });

  it('is not shared by two databases', async () => {
    const path = viewPath();
    const a = await openBox(await makeDatabase(), path);
    await a.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: ['a'], value: 1 }));
    await a.close();
    const other = await openBox(await makeDatabase(), path);
    expect([...other.tables.range('t', { prefix: [] })]).toEqual([]);
  });
});

describe('a database', () => {
  it('contains no readable value with a data key, and opens only with this key', async () => {
    const address = await makeDatabase();
    const key = Buffer.alloc(32, 7);
    const a = await openBox(address, viewPath(), key);
    await a.tables.transact((tx) =>
      tx.write({ op: 'put', table: 't', row: ['k'], value: { secret: 'in plain words' } }),
    );
    const b = await openBox(address, viewPath(), key);
    expect(b.tables.get('t', ['k'])).toEqual({ secret: 'in plain words' });
    const [stored] = await queryDatabase(address, 'SELECT value FROM understudy.rows');
    expect((stored!.value as Buffer).includes('plain words')).toBe(false);
    await expect(PostgresTruth.connect(address)).rejects.toThrow(/is encrypted: DATA_KEY_FILE must name/);
    const other = openDataKey(Buffer.alloc(32, 8));
    await expect(PostgresTruth.connect(address, other)).rejects.toThrow(
      /is encrypted: DATA_KEY_FILE must name/,
    );
    const plain = await makeDatabase();
    const c = await openBox(plain);
    await c.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: ['k'], value: 1 }));
    await expect(PostgresTruth.connect(plain, other)).rejects.toThrow(
      /is not encrypted, and DATA_KEY_FILE is set/,
    );
  });

  it('is refused with one line that says why, and never shows the password', async () => {
    const lines: string[] = [];
    const refuse = async (address: string) => {
      const { message, name } = await PostgresTruth.connect(address).then(
        () => new Error('accepted'),
        (thrown: Error) => thrown,
      );
      lines.push(message);
      expect(message).not.toContain('hunter2');
      expect(message).not.toContain('\n');
      return `${name}: ${message}`;
    };
    const empty = await server.createDatabase();
    const wrong = new URL(empty);
    wrong.password = 'hunter2';
    expect(await refuse(wrong.href)).toMatch(
      /^TruthRefusedError: .* does not accept the user \w+ or the password$/,
    );
    expect(await refuse(server.addressOf('nowhere'))).toMatch(/^TruthRefusedError: .*no such database$/);
    expect(await refuse(empty)).toMatch(
      /^TruthRefusedError: .* has no tables of this program: run understudy migrate/,
    );
    expect(await refuse(`postgres://me:hunter2@127.0.0.1:${await findFreePort()}/x`)).toMatch(
      /^TruthUnavailableError: 127\.0\.0\.1:\d+\/x cannot be reached \(ECONNREFUSED\)$/,
    );
    const plain = createServer((socket) => socket.once('data', () => socket.end('N'))).listen(0, '127.0.0.1');
    onTestFinished(() => void plain.close());
    await once(plain, 'listening');
    const { port } = plain.address() as AddressInfo;
    expect(await refuse(`postgres://me:hunter2@127.0.0.1:${port}/x?sslmode=verify-full`)).toMatch(
      /^TruthRefusedError: .* offers no TLS/,
    );
    expect(await refuse(`${empty}?sslmode=require`)).toMatch(
      /^TruthRefusedError: sslmode=require: allowed are/,
    );
    expect(await refuse(`${empty}?sslrootcert=/nowhere/ca.pem`)).toMatch(/cannot be read \(ENOENT\)$/);
    expect(await refuse('https://me:hunter2@db')).toMatch(
      /^TruthRefusedError: not the address of a database/,
    );
    expect(await refuse('postgres://me:hunter2@db/x?host=y')).toMatch(
      /^TruthRefusedError: host in the address/,
    );
    expect(new Set(lines).size).toBe(lines.length);
  });

  it('that accepts connections and does not answer is given up', async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
    onTestFinished(() => {
      silent.close();
      for (const socket of sockets) socket.destroy();
    });
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    await expect(
      PostgresTruth.connect(`postgres://me:hunter2@127.0.0.1:${port}/x`, null, 100),
    ).rejects.toMatchObject({
      name: 'TruthUnavailableError',
      message: expect.stringMatching(/^127\.0\.0\.1:\d+\/x cannot be reached \(.*timeout.*\)$/),
    });
  });

  it.each([
    ['user', 'postgres://m%e:hunter2@db/x'],
    ['password', 'postgres://me:hunter2%zz@db/x'],
    ['database', 'postgres://me:hunter2@db/x%'],
  ])('is refused with one line if the %s is not valid percent-encoding', (part, address) => {
    const words = `the ${part} in the address is not valid percent-encoding: write % as %25`;
    expect(() => readDatabaseAddress(address)).toThrow(new TruthRefusedError(words));
  });

  it('that is starting, full or a standby, or whose connection breaks, may be tried again; other errors are final', () => {
    const address = readDatabaseAddress('postgres://me:hunter2@db/x');
    const explain = (error: object) => `${explainDatabase(error, address)}`;
    const fatal = { severity: 'FATAL', message: 'the database system is starting up' };
    expect(explain({ ...fatal, code: '57P03' })).toBe(
      'TruthUnavailableError: db:5432/x cannot be used now: the database system is starting up (57P03)',
    );
    const error = { severity: 'ERROR', message: 'cannot execute UPDATE in a read-only transaction\nmore' };
    expect(explain({ ...error, code: '25006' })).toMatch(/^TruthUnavailableError: .* transaction \(25006\)$/);
    expect(explain({ ...error, code: '22P02' })).toMatch(/^TruthRefusedError: .* transaction \(22P02\)$/);
    const noRule = 'no pg_hba.conf entry for host "10.0.0.9", user "me", database "x", no encryption';
    expect(explain({ severity: 'FATAL', message: noRule, code: '28000' })).toBe(
      `TruthRefusedError: db:5432/x does not accept the user me: ${noRule}`,
    );
    // This code has the length of an SQLSTATE, but is not one.
    expect(explain({ message: 'write EPIPE', code: 'EPIPE' })).toBe(
      'TruthUnavailableError: db:5432/x cannot be reached (EPIPE)',
    );
    expect(explain(new Error('Connection terminated unexpectedly'))).toBe(
      'TruthUnavailableError: db:5432/x cannot be reached (Connection terminated unexpectedly)',
    );
  });

  it('is refused by a machine whose clock is wrong, and stays as it was', async () => {
    const address = await makeDatabase();
    const key = openDataKey(Buffer.alloc(32, 7));
    const connect = (ms: number) =>
      PostgresTruth.connect(address, key, undefined, createManualClock(Date.now() + ms));
    await expect(connect(3_600_000)).rejects.toThrow(
      /^the clock of this machine is 3(600|599) s ahead of that of [\w.:/]+: set both by NTP$/,
    );
    await expect(connect(-90_000)).rejects.toThrow(/^the clock of this machine is \d+ s behind that of/);
    expect(await queryDatabase(address, 'SELECT key_id FROM understudy.state')).toEqual([{ key_id: null }]);
    await connect(0);
  });

  it('is not migrated by a user without the right, and stays as it was', async () => {
    const address = await server.createDatabase();
    const limited = await makeUser(address);
    await expect(migrateDatabase(limited)).rejects.toThrow(/lacks a right \(permission denied for database/);
    expect(
      await queryDatabase(address, "SELECT nspname FROM pg_namespace WHERE nspname = 'understudy'"),
    ).toEqual([]);
  });

  it.each<[string, RegExp, (database: string, user: string) => [string, string][]]>([
    [
      'another password',
      /does not accept the user \w+ or the password$/,
      (database, user) => [
        [database, `ALTER ROLE ${user} PASSWORD 'another'`],
        [database, `ALTER ROLE ${user} PASSWORD '${PASSWORD}'`],
      ],
    ],
    [
      'a newer schema',
      /^the database's schema is version 99, and this program knows \d+: install a newer version of the program$/,
      (database) => [
        [database, 'UPDATE understudy.schema_version SET version = 99'],
        [database, `UPDATE understudy.schema_version SET version = ${SCHEMA_VERSION}`],
      ],
    ],
    [
      'no connections',
      /is not currently accepting connections/,
      (database) => {
        const name = new URL(database).pathname.slice(1);
        return [true, false].map((isClosed) => [
          server.addressOf('postgres'),
          `ALTER DATABASE ${name} ALLOW_CONNECTIONS ${!isClosed}`,
        ]);
      },
    ],
  ])(
    'that gets %s refuses a running box in one line, and the box continues to read until that is repaired',
    async (_, line, change) => {
      const address = await makeDatabase();
      const limited = await makeUser(address);
      const truth = await PostgresTruth.connect(limited);
      const box = await SharedBox.open(viewPath(), truth);
      onTestFinished(() => box.close());
      // This box waits only briefly for the database, so that its refusals do not take long.
      const hasty = await SharedBox.open(viewPath(), truth, { patience_ms: 50 });
      onTestFinished(() => hasty.close());
      const put = (to: SharedBox, n: number) =>
        to.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: [n], value: n }));
      await put(box, 1);
      const [broken, mended] = change(address, new URL(limited).username);
      await queryDatabase(...broken!);
      await queryDatabase(
        server.addressOf('postgres'),
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${new URL(limited).username}'`,
      );
      for (const { follower } of [box, hasty])
        await expect.poll(() => follower.failure?.message).toMatch(line);
      await expect(put(hasty, 2)).rejects.toMatchObject({
        name: 'TruthUnavailableError',
        message: expect.stringMatching(line),
      });
      expect(box.tables.get('t', [1])).toBe(1);
      await queryDatabase(...mended!);
      await expect.poll(() => box.follower.failure).toBeNull();
      await put(box, 3);
    },
  );

  it.skipIf(process.env.TEST_DATABASE_URL !== undefined)(
    'must prove its name, unless configured otherwise',
    async () => {
      const address = new URL(await makeDatabase());
      const file = join(makeFolder(), 'authority.pem');
      writeFileSync(file, TEST_CERTIFICATE);
      const connect = (host: string, search: string) =>
        PostgresTruth.connect(Object.assign(new URL(address), { hostname: host, search }).href);
      await expect(connect('127.0.0.1', '?sslmode=verify-full')).rejects.toThrow(
        /certificate of .* is not trusted/,
      );
      // The certificate is for 127.0.0.1 and localhost.
      await expect(connect('127.0.0.2', `?sslrootcert=${file}`)).rejects.toThrow(
        /certificate of .* is not trusted/,
      );
      const truth = await connect('127.0.0.1', `?sslrootcert=${file}`);
      const box = await SharedBox.open(viewPath(), truth);
      await box.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: ['k'], value: 1 }));
      expect(
        await queryDatabase(address.href, 'SELECT count(*)::int AS n FROM pg_stat_ssl WHERE ssl'),
      ).toEqual([{ n: 1 }]);
      await box.close();
    },
  );

  it('is migrated once by the first box; a newer schema is not changed', async () => {
    const address = await server.createDatabase();
    const results = await Promise.all([migrateDatabase(address), migrateDatabase(address)]);
    expect(results.map(({ from }) => from).sort()).toEqual([0, SCHEMA_VERSION]);
    const knowsOlder = `schema is version 99, and this program knows ${SCHEMA_VERSION}`;
    await queryDatabase(address, 'UPDATE understudy.schema_version SET version = 99');
    await expect(migrateDatabase(address)).rejects.toThrow(knowsOlder);
    await expect(PostgresTruth.connect(address)).rejects.toThrow(knowsOlder);
  });

  it('needs only the rights that the docs name', async () => {
    const address = await makeDatabase();
    const limited = await makeUser(address);
    const box = await openBox(limited);
    await box.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: ['k'], value: 1 }));
    await expect(queryDatabase(limited, 'DELETE FROM understudy.rows')).rejects.toThrow(/permission denied/);
    await box.close();
  });
});

it('a box continues after its connection broke, and after the database has forgotten it', async () => {
  const address = await makeDatabase();
  const box = await openBox(address);
  const put = (n: number) =>
    box.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: [n], value: n }));
  for (const [n, statement] of [
    'SELECT 1',
    'DELETE FROM understudy.boxes',
    // This is the state after a restore: the box has sent more batches than the database knows.
    'UPDATE understudy.boxes SET batch = 1',
  ].entries()) {
    await put(2 * n);
    await queryDatabase(address, statement);
    await queryDatabase(
      address,
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    // This commit may be in transit while the connection ends.
    await put(2 * n + 1).catch((thrown: Error) => expect(thrown.name).toBe('TruthUnavailableError'));
  }
  await put(6);
  const other = await openBox(address);
  const found = [...other.tables.range<number>('t', { prefix: [] })].map(({ value }) => value);
  expect(found.filter((n) => n % 2 === 0)).toEqual([0, 2, 4, 6]);
});

it.skipIf(process.env.TEST_DATABASE_URL !== undefined)(
  'acknowledged data exists after a fail-over to the standby',
  { tags: 'long' },
  async () => {
    const own = await PostgresServer.start();
    onTestFinished(() => own.stop());
    const address = await own.createDatabase();
    await migrateDatabase(address);
    const path = viewPath();
    const put = (box: SharedBox, n: number) =>
      box.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: [n], value: n }));
    const box = await openBox(address, path);
    await put(box, 1);
    await own.startStandby();
    await put(box, 2);
    await own.failOver();
    await box.close();
    const again = await openBox(own.addressOf(new URL(address).pathname.slice(1)), path);
    await put(again, 3);
    expect([...again.tables.range<number>('t', { prefix: [] })].map(({ value }) => value)).toEqual([1, 2, 3]);
  },
);

it('a removal that comes early because the database’s clock moved only causes a new load', async () => {
  const address = await makeDatabase();
  const [a, b] = [await openBox(address), await openBox(address)];
  const add = (box: SharedBox) =>
    box.tables.transact((tx) => tx.write({ op: 'add', table: 'counts', row: ['c'], counts: { n: 1 } }));
  for (const moved of ["- interval '1 year'", "+ interval '1 year'", "- interval '1 day'"]) {
    await add(a);
    // The times are changed as if the clock had been set after the commits.
    await queryDatabase(address, `UPDATE understudy.commits SET at = now() ${moved}`);
    await queryDatabase(address, `UPDATE understudy.boxes SET at = now() ${moved}`);
    await queryDatabase(address, 'SELECT understudy.prune()');
    await queryDatabase(address, 'SELECT understudy.sweep()');
    const unsure = (thrown: Error) => expect(thrown.name).toBe('TruthUnavailableError');
    await Promise.all([add(a).catch(unsure), add(b).catch(unsure)]);
    await add(b);
  }
  await a.follower.reach(b.follower.position, 60_000);
  await b.follower.reach(a.follower.position, 60_000);
  expect(a.tables.get('counts', ['c'])).toEqual(b.tables.get('counts', ['c']));
  const [state] = await queryDatabase(address, 'SELECT position::int AS n FROM understudy.state');
  expect(a.tables.get('counts', ['c'])).toEqual(state);
});

it('a transaction is a conflict if its box was unreachable until removals were forgotten', async () => {
  const address = await makeDatabase();
  const a = await openBox(address);
  for (const n of [1, 2])
    await a.tables.transact((tx) => tx.write({ op: 'put', table: 't', row: ['k'], value: n }));
  await a.tables.transact((tx) => tx.write({ op: 'remove', table: 't', row: ['k'] }));
  await queryDatabase(address, "SELECT understudy.prune('0 seconds')");
  await queryDatabase(address, 'SELECT understudy.sweep()');
  const session = await (await PostgresTruth.connect(address)).open(crypto.randomUUID(), () => {});
  onTestFinished(() => session.close());
  const write = { table: 'rows:u', key: Buffer.from('u'), value: Buffer.from('x') };
  const { verdicts, delta } = await session.commit(
    1,
    [
      { base: 2, history: '', reads: [], writes: [write] },
      { base: 3, history: '', reads: [], writes: [write] },
    ],
    2,
  );
  expect(verdicts).toEqual([null, 4]);
  expect(delta.rows).toBeNull();
});

it('a session that a later session of its box has replaced commits nothing, and its batch counts once', async () => {
  const truth = await PostgresTruth.connect(await makeDatabase());
  const box = crypto.randomUUID();
  const former = await truth.open(box, () => {});
  onTestFinished(() => former.close());
  const put = (key: string) => ({
    base: 0,
    history: '',
    reads: [],
    writes: [{ table: 't', key: Buffer.from(key), value: Buffer.from('x') }],
  });
  expect((await former.commit(1, [put('a')], 0)).verdicts).toEqual([1]);
  const present = await truth.open(box, () => {});
  onTestFinished(() => present.close());
  expect(present.last_batch).toEqual({ number: 1, verdicts: [1] });
  await expect(former.commit(2, [put('b')], 0)).rejects.toThrow(
    /cannot be used now: this session of the box has ended \(UND01\)/,
  );
  expect((await present.commit(1, [put('c')], 0)).verdicts).toEqual([1]);
  expect((await present.follow(0)).rows).toHaveLength(1);
});
