/**
 * Threads use the shared runs through the store thread of their box. The test has two boxes in one process. Test
 * thread; PostgreSQL.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { RateShares } from '../../actors/rate-bucket/shares.ts';
import { allocateRateTable } from '../../actors/rate-bucket/table.ts';
import { UserEpochs } from '../../src/api/user-epochs.ts';
import { Revocations } from '../../src/auth/revocations.ts';
import { migrateDatabase } from '../../src/storage/postgres/truth.ts';
import { encodePrefixEnd, encodeRowKey } from '../../src/storage/row-key.ts';
import { RunsClient } from '../../src/storage/shared/runs-client.ts';
import { SharedRunsJournal } from '../../src/storage/shared/runs-journal.ts';
import { SeatState } from '../../src/storage/shared/seat.ts';
import { StoreClient } from '../../src/storage/shared/store-client.ts';
import { SharedStore } from '../../src/threads/shared-store.ts';
import { PostgresServer } from '../fixtures/postgres-server.ts';
import { makeFolder } from '../storage/folder.ts';
import { commit, event, readable } from '../storage/journal-suite.ts';
import { TABLES } from '../storage/shared/runs-box.ts';

let server: PostgresServer;
let address: string;
beforeAll(async () => {
  server = await PostgresServer.start();
  address = await server.createDatabase();
  await migrateDatabase(address);
});
afterAll(() => server.stop());

interface BoxThread {
  client: RunsClient;
  journal: SharedRunsJournal;
  store: StoreClient;
  state: SeatState;
  /** Keys of the actors that the host was told to drop. */
  lost: string[];
}

/** Opens a box with one thread that has runs. */
async function openBox(): Promise<BoxThread> {
  const folder = makeFolder();
  const memory = {
    revocations: Revocations.allocate(),
    user_epochs: UserEpochs.allocate(),
    rate_table: allocateRateTable(2),
    rate_shares: RateShares.allocate(2),
  };
  const place = {
    address,
    path: join(folder, 'shared.mdb'),
    data_key: null,
    live_event_days: null,
    rate_limit: { rate_per_s: 1, burst: 1 },
  };
  const shared = await SharedStore.start(place, memory, pino({ level: 'silent' }));
  let journal: SharedRunsJournal | null = null;
  const client = new RunsClient(shared.seat, (actors) => journal?.noteLost(actors));
  journal = new SharedRunsJournal(client, TABLES);
  const store = new StoreClient(shared.seat);
  const lost: string[] = [];
  journal.onLost = (addresses) => lost.push(...addresses.map(({ key }) => key));
  onTestFinished(async () => {
    await journal.close();
    await Promise.all([client.close(), store.close()]);
    await shared.close();
    rmSync(folder, { recursive: true });
  });
  return { client, journal, store, state: new SeatState(shared.seat.state), lost };
}

it('an actor moves between two boxes, and the former box shows no old state at a later position', async () => {
  const [a, b] = [await openBox(), await openBox()];
  await Promise.all(['x', 'y', 'z'].map((key) => a.journal.load('run', key)));
  const add = {
    type: 'row',
    kind: 'run',
    key: 'x',
    row: { op: 'add', table: 'usage', row: ['d'], counts: { steps: 3 } },
  } as const;
  const writes = ['x', 'y', 'z'].map((key) => event('run', key, 1));
  expect(await commit(a.journal, [...writes, add])).toBeNull();
  for (let turn = 0; turn < 10; turn++) {
    const [from, to] = turn % 2 === 0 ? [a, b] : [b, a];
    from.lost.length = 0;
    const loaded = readable(await to.journal.load('run', 'x'));
    expect(loaded.events).toHaveLength(turn + 1);
    expect(await commit(to.journal, [event('run', 'x', turn + 2)])).toBeNull();
    // A client has seen the actor's state on the other box, and now asks this box.
    expect(await from.store.reach(to.state.position, 60_000)).toBe(true);
    from.client.catchUp();
    expect(from.lost).toEqual(['x']);
    from.client.catchUp();
    expect(from.lost).toEqual(['x']);
    const outcome = await new Promise((resolve) =>
      from.journal.commit([event('run', 'x', turn + 3)], (error, lost) => resolve([error, lost])),
    );
    expect(outcome).toEqual([null, [{ kind: 'run', key: 'x' }]]);
  }
  expect(a.lost).not.toContain('y');
  expect(await commit(a.journal, [event('run', 'y', 2)])).toBeNull();
  expect(a.state.countOf('take_overs') + b.state.countOf('take_overs')).toBe(10);
  expect(a.state.countOf('run_commits')).toBeGreaterThan(5);
  const range = { table: 'rows:usage', first: encodeRowKey(['d']), end: encodePrefixEnd(['d']) };
  expect(await b.client.sumCounts(range)).toEqual([{ key: encodeRowKey(['d']), counts: { steps: 3 } }]);
  expect(await b.client.readRange({ ...range, table: 'rows:run_steps' }, 5, true)).toEqual([]);
  expect(await b.client.readRows('rows:run_steps', [range.first])).toEqual([null]);
});

it('what many actors commit in one tick takes one round trip', async () => {
  const { journal, state } = await openBox();
  const keys = Array.from({ length: 100 }, (_, at) => `many ${at}`);
  await Promise.all(keys.map((key) => journal.load('run', key)));
  const before = state.countOf('run_ticks');
  expect(
    await commit(
      journal,
      keys.map((key) => event('run', key, 1)),
    ),
  ).toBeNull();
  expect(state.countOf('run_ticks')).toBe(before + 1);
});

it('after the store thread was started again, every actor is loaded again', async () => {
  const box = await openBox();
  await box.journal.load('run', 'after');
  expect(await commit(box.journal, [event('run', 'after', 1)])).toBeNull();
  const { thread } = box.state;
  // Simulates a new store thread: the channel belongs to a former one.
  box.state.thread = -2;
  box.client.catchUp();
  expect(box.lost).toEqual(['after']);
  box.state.thread = thread;
  expect(readable(await box.journal.load('run', 'after')).events).toEqual(['event 1']);
  box.client.catchUp();
  expect(box.lost).toEqual(['after']);
});
