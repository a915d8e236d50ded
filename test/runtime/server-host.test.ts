/**
 * A host of actors on the thread that sends them messages: it gives the guarantees of a host on a separate thread.
 * Also what happens after the host itself fails.
 */
import { describe, expect, it } from 'vitest';
import { ActorClient } from '../../src/runtime/actor-client.ts';
import type { JournalStore, StoredActor } from '../../src/runtime/journal.ts';
import { createLocalLink } from '../../src/runtime/local-link.ts';
import { createLinkEnds, MessagePortLink } from '../../src/runtime/message-port-link.ts';
import { countHosts, type Placement, placeAddress } from '../../src/runtime/protocol.ts';
import { loopScheduler } from '../../src/runtime/scheduler.ts';
import { ServerHost, type ServerHostOptions } from '../../src/runtime/server-host.ts';
import { createDeferred } from '../../src/std/deferred.ts';
import { MemoryJournal } from '../../src/storage/memory/journal.ts';
import { LEDGER_KIND, TEST_KINDS, type Totals } from '../fixtures/actor-kinds.ts';

const PLACEMENT: Placement = { hosts: 1, pins: {}, servers: { hosts: 2, kinds: [LEDGER_KIND] } };
/** Far longer than any of these tests takes. */
const FAR = { deadline_ms: 600_000 };
const HERE = 1;
const THERE = 2;

type Disk = ConstructorParameters<typeof MemoryJournal>[0];

function keyOn(host: number, from = 0): string {
  for (let at = from; ; at++) {
    if (placeAddress(PLACEMENT, { kind: LEDGER_KIND, key: `key-${at}` }) === host) return `key-${at}`;
  }
}

interface Opened {
  client: ActorClient;
  host: ServerHost;
  /** The reported faults. */
  downs: string[];
  ups: number[];
  disposed: number;
}

function open(
  disk: Disk = new Map(),
  parts: Partial<ServerHostOptions> & { throwing?: { now: boolean } } = {},
): Opened {
  const client = new ActorClient(PLACEMENT, loopScheduler);
  const opened: Opened = { client, host: null as never, downs: [], ups: [], disposed: 0 };
  opened.host = new ServerHost({
    index: HERE,
    placement: PLACEMENT,
    client,
    open: () => {
      const journal: JournalStore = new MemoryJournal(disk);
      return {
        kinds: TEST_KINDS,
        journal,
        adapters: {},
        report: () => {
          // A fault of the host itself, which its code does not expect.
          if (parts.throwing?.now) throw new Error('the log is gone');
        },
        dispose: async () => {
          opened.disposed++;
          await journal.close();
        },
      };
    },
    restart: { max_restarts: 2, window_ms: 60_000, backoff_first_ms: 1, backoff_max_ms: 5 },
    onDown: (reason) => void opened.downs.push(reason),
    onUp: () => void opened.ups.push(opened.ups.length),
    ...parts,
  });
  return opened;
}

function ask(
  { client }: { client: ActorClient },
  name: string,
  amount: number,
  key = keyOn(HERE),
): Promise<Totals> {
  return client.ask({ kind: LEDGER_KIND, key }, name, { amount }, FAR) as Promise<Totals>;
}

function failureOf(asked: Promise<unknown>): Promise<unknown> {
  return asked.then(
    () => null,
    (thrown: unknown) => thrown,
  );
}

describe('placement', () => {
  it('spreads the clients’ kinds over the clients, and assigns no others to them', () => {
    const hosts = Array.from({ length: 200 }, (_, at) =>
      placeAddress(PLACEMENT, { kind: LEDGER_KIND, key: `k${at}` }),
    );
    expect(new Set(hosts)).toEqual(new Set([HERE, THERE]));
    expect(placeAddress(PLACEMENT, { kind: 'other', key: 'k' })).toBe(0);
    expect(countHosts(PLACEMENT)).toBe(3);
    expect(countHosts({ hosts: 2, pins: {} })).toBe(2);
  });
});

describe('a local link', () => {
  it('passes frames in order at once, and closes both ends once', () => {
    const [near, far] = createLocalLink();
    const heard: number[] = [];
    const closed: string[] = [];
    far.onFrame = (frame) => void heard.push(frame.type === 'fence' ? frame.id : -1);
    near.onClose = () => void closed.push('one');
    far.onClose = () => void closed.push('other');
    expect([1, 2, 3].map((id) => near.send({ type: 'fence', id }))).toEqual([true, true, true]);
    expect(heard).toEqual([1, 2, 3]);
    far.close();
    near.close();
    expect(closed.sort()).toEqual(['one', 'other']);
    expect(near.send({ type: 'fence', id: 4 })).toBe(false);
    expect(far.send({ type: 'fence', id: 4 })).toBe(false);
    expect(heard).toEqual([1, 2, 3]);
  });
});

describe('a host on a server thread', () => {
  it('answers only when the recorded events are stored, and drains its actors at its end', async () => {
    const disk: Disk = new Map();
    const gate = createDeferred();
    const client = new ActorClient(PLACEMENT, loopScheduler);
    const inner = new MemoryJournal(disk);
    const host = new ServerHost({
      index: HERE,
      placement: PLACEMENT,
      client,
      open: () => ({
        kinds: TEST_KINDS,
        journal: {
          load: (kind, key) => inner.load(kind, key),
          commit: (writes, done) => void gate.promise.then(() => inner.commit(writes, done)),
          close: () => inner.close(),
        },
        adapters: {},
        report: () => {},
        dispose: () => inner.close(),
      }),
    });
    let answered = 0;
    const asks = [1, 2, 3].map((amount) => ask({ client }, 'add', amount).finally(() => answered++));
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(answered).toBe(0);
    const stopped = host.stop();
    gate.resolve();
    await stopped;
    expect((await Promise.all(asks)).map(({ total }) => total)).toEqual([1, 3, 6]);
    await expect(ask({ client }, 'add', 1)).rejects.toMatchObject({ code: 'host_down' });
    const again = open(disk);
    expect(await ask(again, 'add', 4)).toEqual({ total: 10, count: 4 });
    await again.host.stop();
  });

  it('answers a fence at once, and other threads can then read every commit', async () => {
    let settled = 0;
    const client = new ActorClient(PLACEMENT, loopScheduler);
    const inner = new MemoryJournal(new Map());
    const journal: JournalStore = {
      load: (kind, key) => inner.load(kind, key),
      commit: (writes, done) => inner.commit(writes, done),
      settle: () => {
        settled++;
        if (settled > 1) throw new Error('the disk is full');
      },
      close: () => inner.close(),
    };
    const parts = {
      kinds: TEST_KINDS,
      journal,
      adapters: {},
      report: () => {},
      dispose: () => inner.close(),
    };
    const host = new ServerHost({ index: HERE, placement: PLACEMENT, client, open: () => parts });
    await client.fence();
    expect(settled).toBe(1);
    // The fence must not wait forever for actors that cannot move to this host.
    await client.fence();
    expect(settled).toBe(2);
    expect(await ask({ client }, 'add', 4)).toEqual({ total: 4, count: 1 });
    await host.stop();
  });

  it('survives an actor that throws', async () => {
    const opened = open();
    await ask(opened, 'add', 5);
    await expect(ask(opened, 'fail', 1)).rejects.toMatchObject({ code: 'actor_failed' });
    expect(await ask(opened, 'add', 2, keyOn(HERE, 50))).toEqual({ total: 2, count: 1 });
    expect(await ask(opened, 'add', 1)).toEqual({ total: 6, count: 2 });
    expect(opened.downs).toEqual([]);
    await opened.host.stop();
  });

  it('fails without its thread: waiting requests fail at once, and the host restarts from the stored state', async () => {
    const throwing = { now: false };
    const opened = open(new Map(), { throwing });
    await ask(opened, 'add', 5);
    throwing.now = true;
    const waiting = failureOf(ask(opened, 'add', 7, keyOn(HERE, 50)));
    // The actor's answer is sent before the host fails.
    expect(await failureOf(ask(opened, 'fail', 1))).toMatchObject({ code: 'actor_failed' });
    expect(await waiting).toMatchObject({ code: 'host_down', retryable: true });
    throwing.now = false;
    expect(opened.host.stats()).toBeNull();
    await opened.client.waitUp(HERE);
    expect(await ask(opened, 'add', 1)).toEqual({ total: 6, count: 2 });
    expect(opened.downs).toEqual([expect.stringContaining('the log is gone')]);
    expect(opened.ups).toEqual([0]);
    expect(opened.disposed).toBe(1);
    await opened.host.stop();
    expect(opened.disposed).toBe(2);
  });

  it('waits for a store that answers later, and fails without its thread if the answer is a fault', async () => {
    const inner = new MemoryJournal();
    const asked: (() => void)[] = [];
    const journal: JournalStore = {
      load: (kind, key) => {
        const deferred = createDeferred<StoredActor>();
        asked.push(() => deferred.resolve(inner.load(kind, key)));
        return deferred.promise;
      },
      commit: (writes, done) => inner.commit(writes, done),
      close: async () => {},
    };
    const downs: string[] = [];
    const client = new ActorClient(PLACEMENT, loopScheduler);
    const host = new ServerHost({
      index: HERE,
      placement: PLACEMENT,
      client,
      open: () => ({
        kinds: TEST_KINDS,
        journal,
        adapters: {},
        report: () => {
          throw new Error('the log is gone');
        },
        dispose: async () => {},
      }),
      restart: { max_restarts: 5, window_ms: 60_000, backoff_first_ms: 1, backoff_max_ms: 5 },
      onDown: (reason) => void downs.push(reason),
    });
    const added = ask({ client }, 'add', 3);
    expect(asked).toHaveLength(1);
    asked.shift()!();
    expect(await added).toEqual({ total: 3, count: 1 });
    // The actor has another owner, so it is loaded again.
    journal.onLost!([{ kind: LEDGER_KIND, key: keyOn(HERE) }]);
    const read = ask({ client }, 'add', 4);
    asked.shift()!();
    expect(await read).toEqual({ total: 7, count: 2 });
    // The actor is stopped, and that cannot be reported.
    journal.load = () => Promise.reject(new Error('an event is missing'));
    expect(await failureOf(ask({ client }, 'add', 1, keyOn(HERE, 50)))).toMatchObject({
      code: 'actor_stopped',
    });
    expect(downs).toEqual([expect.stringContaining('the log is gone')]);
    journal.load = (kind, key) => inner.load(kind, key);
    await client.waitUp(HERE);
    expect(await ask({ client }, 'add', 1)).toEqual({ total: 8, count: 3 });
    await host.stop();
  });

  it('stays down when it fails too often, and can then be stopped', async () => {
    const throwing = { now: true };
    const opened = open(new Map(), { throwing });
    for (let fault = 0; fault < 3; fault++) {
      await opened.client.waitUp(HERE);
      await failureOf(ask(opened, 'fail', 1));
    }
    expect(opened.downs).toHaveLength(3);
    expect(opened.client.isUp(HERE)).toBe(false);
    await opened.host.stop();
    expect(opened.ups).toHaveLength(2);
  });

  it('serves clients and hosts of other threads through ports, and refuses links while it is down', async () => {
    const throwing = { now: false };
    const opened = open(new Map(), { throwing });
    const other = new ActorClient(PLACEMENT, loopScheduler);
    const connect = () => {
      const [clientEnd, hostEnd] = createLinkEnds();
      opened.host.connectClient(hostEnd);
      other.attach(HERE, new MessagePortLink(clientEnd));
    };
    connect();
    expect(await ask({ client: other }, 'add', 3)).toEqual({ total: 3, count: 1 });
    // Hosts of two threads send each other tells.
    const peer = new ActorClient(PLACEMENT, loopScheduler);
    const far = new ServerHost({
      index: THERE,
      placement: PLACEMENT,
      client: peer,
      open: () => {
        const journal = new MemoryJournal();
        return { kinds: TEST_KINDS, journal, adapters: {}, report: () => {}, dispose: () => journal.close() };
      },
    });
    const [a, b] = createLinkEnds();
    opened.host.connectPeer(THERE, a);
    far.connectPeer(HERE, b);
    const to = keyOn(THERE);
    await opened.client.ask({ kind: LEDGER_KIND, key: keyOn(HERE) }, 'forward', { amount: 2, to }, FAR);
    const read = async () => ((await ask({ client: peer }, 'read', 0, to)) as Totals).total;
    while ((await read()) !== 2) await new Promise((resolve) => setImmediate(resolve));

    throwing.now = true;
    await failureOf(ask(opened, 'fail', 1));
    connect();
    await expect(ask({ client: other }, 'add', 1)).rejects.toMatchObject({ code: 'host_down' });
    throwing.now = false;
    await opened.client.waitUp(HERE);
    connect();
    expect(await ask({ client: other }, 'add', 1)).toEqual({ total: 6, count: 3 });
    await opened.host.stop();
    await far.stop();
    for (const actorClient of [other, peer, opened.client]) actorClient.close();
  });
});
