/**
 * Actors that move between two hosts on server threads, over real message ports: one place at a time, with their whole
 * state.
 */
import { expect, it } from 'vitest';
import { ActorClient } from '../../src/runtime/actor-client.ts';
import { allocateClaims, Claims } from '../../src/runtime/claims.ts';
import { createLinkEnds, MessagePortLink } from '../../src/runtime/message-port-link.ts';
import { type Placement, placeAddress, spreadAddress } from '../../src/runtime/protocol.ts';
import { loopScheduler } from '../../src/runtime/scheduler.ts';
import { ServerHost } from '../../src/runtime/server-host.ts';
import { MemoryJournal } from '../../src/storage/memory/journal.ts';
import { LEDGER_KIND, TEST_KINDS, type Totals } from '../fixtures/actor-kinds.ts';

const FAR = { deadline_ms: 600_000 };
const SEATS = [1, 2] as const;
const ADDRESS = { kind: LEDGER_KIND, key: 'org\nrun' };

interface Thread {
  client: ActorClient;
  host: ServerHost;
  fault: { now: boolean };
}

/** Two threads, each with a client and a host, over one disk. The main thread makes the links between them. */
function openTwo(): { placement: Placement; threads: [Thread, Thread] } {
  const servers = { hosts: 2, kinds: [LEDGER_KIND] };
  const placement = { hosts: 1, pins: {}, servers, moving: allocateClaims([LEDGER_KIND]) };
  const disk: ConstructorParameters<typeof MemoryJournal>[0] = new Map();
  const threads = SEATS.map((index): Thread => {
    const client = new ActorClient(placement, loopScheduler, undefined, index);
    const fault = { now: false };
    const host = new ServerHost({
      index,
      placement,
      client,
      open: () => {
        const journal = new MemoryJournal(disk);
        return {
          kinds: TEST_KINDS,
          journal,
          adapters: {},
          report: () => {
            if (fault.now) throw new Error('the log is gone');
          },
          dispose: () => journal.close(),
        };
      },
      restart: { max_restarts: 5, window_ms: 60_000, backoff_first_ms: 1, backoff_max_ms: 5 },
      onUp: () => link(index),
    });
    return { client, host, fault };
  }) as [Thread, Thread];
  function link(index: number): void {
    const [clientEnd, hostEnd] = createLinkEnds();
    threads[index - 1]!.host.connectClient(hostEnd);
    threads[2 - index]!.client.attach(index, new MessagePortLink(clientEnd));
  }
  for (const index of SEATS) link(index);
  return { placement, threads };
}

async function close(threads: readonly Thread[]): Promise<void> {
  for (const { host } of threads) await host.stop();
  for (const { client } of threads) client.close();
}

function add({ client }: Thread, amount: number): Promise<Totals> {
  return client.ask(ADDRESS, 'add', { amount }, FAR) as Promise<Totals>;
}

it('actors stay while they get messages, and move to the next caller after a quiet time', {
  tags: 'long',
}, async () => {
  const { placement, threads } = openTwo();
  const [first, second] = threads;
  expect(await add(second, 1)).toEqual({ total: 1, count: 1 });
  expect(placeAddress(placement, ADDRESS)).toBe(2);
  const both = Array.from({ length: 20 }, (_, at) => add(threads[at % 2]!, 1));
  expect((await Promise.all(both)).map(({ count }) => count).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 20 }, (_, at) => at + 2),
  );
  expect(placeAddress(placement, ADDRESS)).toBe(2);
  // No message is sent here. An idle actor leaves memory, and its host releases it.
  const claims = new Claims(placement.moving!);
  const slot = claims.slotOf(spreadAddress(placement, ADDRESS).hash);
  await expect.poll(() => claims.ownerOf(slot)).toBeNull();
  expect((await add(first, 0)).count).toBe(22);
  expect(placeAddress(placement, ADDRESS)).toBe(1);
  expect(second.host.stats()!.kinds[LEDGER_KIND]!.live).toBe(0);
  const { total } = await add(second, 5);
  expect(total).toBe(26);
  await close(threads);
});

it('asks fail at once when the host dies under load, and the actors return with everything that was acknowledged', async () => {
  const { placement, threads } = openTwo();
  const [first, second] = threads;
  await add(first, 1);
  let answered = 1;
  const settled = Array.from({ length: 40 }, async (_, at) => {
    try {
      await add(at % 2 === 0 ? first : second, 1);
      answered++;
    } catch (thrown) {
      expect(thrown).toMatchObject({ code: expect.stringMatching(/^(?:host_down|actor_)/) });
    }
  });
  first.fault.now = true;
  await first.client.ask(ADDRESS, 'fail', {}, FAR).catch(() => {});
  await Promise.all(settled);
  first.fault.now = false;
  await second.client.waitUp(1);
  expect(placeAddress(placement, ADDRESS)).toBe(1);
  const { count } = await add(second, 1);
  expect(count).toBeGreaterThan(answered);
  expect((await add(first, 1)).count).toBe(count + 1);
  await close(threads);
});
