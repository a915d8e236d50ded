/**
 * Live boxes, and the events of the live stream, in PostgreSQL. Event ids have one order, and missing events are known.
 * Test thread.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openDataKey } from '../../../src/std/data-key.ts';
import { LIVE_KEPT_EVENTS } from '../../../src/storage/postgres/live-schema.ts';
import { migrateDatabase, PostgresTruth } from '../../../src/storage/postgres/truth.ts';
import type { LiveEntry, LiveForget, LiveSession } from '../../../src/storage/shared/live.ts';
import { PostgresServer, queryDatabase } from '../../fixtures/postgres-server.ts';

let server: PostgresServer;
let address: string;
beforeAll(async () => {
  server = await PostgresServer.start();
  address = await server.createDatabase();
  await migrateDatabase(address);
});
afterAll(() => server.stop());

async function open(key: Uint8Array | null = null, at = address): Promise<LiveSession> {
  const truth = await PostgresTruth.connect(at, openDataKey(key));
  const session = await truth.openLive(randomUUID());
  onTestFinished(() => session.close());
  return session;
}

const entry = (run_id: string, more: Partial<LiveEntry> = {}): LiveEntry => ({
  name: 'step',
  project_id: 'p',
  run_id,
  at_ms: 1_000,
  data: `{"run_id":"${run_id}"}`,
  ...more,
});

const forget = (more: Partial<LiveForget>): LiveForget => ({
  run_id: null,
  project_id: null,
  before_ms: 0,
  ...more,
});

const write = (session: LiveSession, org_id: string, ...events: LiveEntry[]) =>
  session.write([{ org_id, has_lost: false, forgets: [], events }]);

async function readAll(session: LiveSession, org: string, after = 0) {
  const [delta] = await session.read(new Map([[org, after]]), 100_000);
  return delta;
}

/** Lists the events that are stored after an id, as runs with their event ids. */
async function listRuns(session: LiveSession, org: string, after = 0) {
  const delta = await readAll(session, org, after);
  return (delta?.stored ?? []).map((stored) => [
    stored.id,
    'event' in stored ? stored.event.run_id : stored.forget,
  ]);
}

describe('live boxes', () => {
  it('are those that reported lately, without boxes that have ended or are silent', async () => {
    const [a, b, c] = [await open(), await open(), await open()];
    const count = async (session: LiveSession) => (await session.beat()).length;
    expect([await count(a), await count(b), await count(c), await count(a)]).toEqual([1, 2, 3, 3]);
    await c.close();
    expect(new Set(await a.beat())).toEqual(new Set(await b.beat()));
    expect(await count(a)).toBe(2);
    await queryDatabase(address, "UPDATE understudy.pulses SET at = now() - interval '16 seconds'");
    expect([await count(a), await count(b)]).toEqual([1, 2]);
  });
});

describe('live events', () => {
  it('are stored only for organizations with readers', async () => {
    const a = await open();
    await write(a, 'unread', entry('r'));
    expect(await readAll(a, 'unread')).toBeUndefined();
    await a.want(['read']);
    expect(await a.findWanted(['read', 'unread'])).toEqual(['read']);
    await write(a, 'read', entry('r'), entry('s', { project_id: null, at_ms: 2 }));
    expect(await readAll(a, 'read')).toEqual({
      org_id: 'read',
      last_id: 2,
      lost_id: 0,
      stored: [
        { id: 1, event: entry('r') },
        { id: 2, event: entry('s', { project_id: null, at_ms: 2 }) },
      ],
    });
    expect(await readAll(a, 'read', 2)).toBeUndefined();
  });

  it('of boxes that write at the same time appear in the order of their ids', async () => {
    const boxes = [await open(), await open(), await open()];
    const reader = await open();
    await reader.want(['x', 'y']);
    const rounds = 40;
    let open_writers = boxes.length;
    const writers = boxes.map(async (box, at) => {
      for (let round = 0; round < rounds; round++) {
        // The boxes name the organizations in both orders. Rows are still locked in one order, so there is no deadlock.
        const orgs = round % 2 === 0 ? ['x', 'y'] : ['y', 'x'];
        await box.write(
          orgs.map((org_id) => ({ org_id, has_lost: false, forgets: [], events: [entry(`${at}-${round}`)] })),
        );
      }
      open_writers--;
    });
    const seen: (readonly [string, string])[] = [];
    const after = new Map([
      ['x', 0],
      ['y', 0],
    ]);
    for (let isLast = false; !isLast; ) {
      isLast = open_writers === 0;
      for (const { org_id, stored, lost_id } of await reader.read(after, 7)) {
        expect(lost_id).toBe(0);
        for (const { id, ...rest } of stored) {
          expect(id).toBe(after.get(org_id)! + 1);
          after.set(org_id, id);
          if ('event' in rest) seen.push([org_id, rest.event.run_id!]);
        }
        if (stored.length > 0) isLast = false;
      }
    }
    await Promise.all(writers);
    for (const org of ['x', 'y']) {
      const runs = seen.filter(([of]) => of === org).map(([, run]) => run);
      expect(runs).toHaveLength(boxes.length * rounds);
      for (const at of boxes.keys())
        expect(runs.filter((run) => run.startsWith(`${at}-`))).toEqual(
          Array.from({ length: rounds }, (_, round) => `${at}-${round}`),
        );
    }
  });

  it('are removed on request, and an entry in their order says which were removed', async () => {
    const a = await open();
    const org_id = 'forgets';
    await a.want([org_id]);
    await write(a, org_id, entry('r'), entry('s'), entry('t', { project_id: 'q' }), entry('u', { at_ms: 5 }));
    const forgets = [forget({ run_id: 'r' }), forget({ project_id: 'q' }), forget({ before_ms: 6 })];
    await a.write([{ org_id, has_lost: false, forgets, events: [entry('r')] }]);
    expect(await listRuns(a, org_id)).toEqual([[2, 's'], ...forgets.map((f, at) => [5 + at, f]), [8, 'r']]);
    await a.write([{ org_id, has_lost: false, forgets: [forget({})], events: [] }]);
    expect((await listRuns(a, org_id)).map(([id]) => id)).toEqual([5, 6, 7, 9]);
  });

  it('that a box has lost are reported to readers', async () => {
    const a = await open();
    const org_id = 'losses';
    await a.want([org_id]);
    await write(a, org_id, entry('r'));
    await a.write([{ org_id, has_lost: true, forgets: [], events: [entry('s')] }]);
    expect(await readAll(a, org_id, 1)).toMatchObject({ last_id: 3, lost_id: 2, stored: [{ id: 3 }] });
    await a.write([{ org_id, has_lost: true, forgets: [], events: [] }]);
    expect(await readAll(a, org_id, 3)).toMatchObject({ last_id: 4, lost_id: 4, stored: [] });
  });

  it('beyond the maximum number are removed, and readers are told; ids continue in the next block', async () => {
    const a = await open();
    const org_id = 'many';
    await a.want([org_id]);
    const some = Array.from({ length: 2_500 }, (_, at) => entry(`${at}`));
    for (let round = 0; round < 5; round++) await write(a, org_id, ...some);
    const total = 5 * some.length;
    const delta = await readAll(a, org_id, 1);
    expect(delta).toMatchObject({ last_id: total, lost_id: total - LIVE_KEPT_EVENTS });
    expect(delta!.stored).toHaveLength(LIVE_KEPT_EVENTS);
    expect((await a.read(new Map([[org_id, 1]]), 3))[0]!.stored.map(({ id }) => id)).toEqual([
      2501, 2502, 2503,
    ]);
    const [head] = await queryDatabase(
      address,
      `SELECT h.reserved_to >= h.last_id AND r.reserved_to >= h.reserved_to AS ok
       FROM understudy.live_heads h JOIN understudy.live_reserved r USING (org) WHERE org = '${org_id}'`,
    );
    expect(head).toEqual({ ok: true });
  });

  it('that may be missing because there were no readers are reported to a reader that returns', async () => {
    const a = await open();
    await a.want(['away']);
    await write(a, 'away', entry('r'));
    await queryDatabase(
      address,
      "UPDATE understudy.live_heads SET wanted_until = now() - interval '1 second'",
    );
    await write(a, 'away', entry('s'));
    await a.want(['away']);
    expect(await readAll(a, 'away', 1)).toMatchObject({ last_id: 2, lost_id: 2, stored: [] });
    await queryDatabase(
      address,
      "UPDATE understudy.live_heads SET wanted_until = now() - interval '1 second'",
    );
    await a.tidy();
    expect(await queryDatabase(address, 'SELECT FROM understudy.live_events')).toEqual([]);
    await a.want(['away']);
    const delta = await readAll(a, 'away', 2);
    expect(delta!.lost_id).toBe(delta!.last_id);
    expect(delta!.last_id).toBeGreaterThan(2);
  });

  it('before a time are removed', async () => {
    const a = await open();
    await a.want(['old']);
    await write(a, 'old', entry('r', { at_ms: 1 }), entry('s', { at_ms: 20 }));
    await a.expire(20);
    expect(await listRuns(a, 'old')).toEqual([[2, 's']]);
  });

  it('are encrypted under the data key, and open only in their organization', async () => {
    const own = await server.createDatabase();
    await migrateDatabase(own);
    const a = await open(Buffer.alloc(32, 7), own);
    await a.want(['sealed', 'other']);
    await write(a, 'sealed', entry('r', { data: '{"action":"bash"}' }));
    const [row] = await queryDatabase(own, 'SELECT data FROM understudy.live_events');
    expect((row!.data as Buffer).includes('bash')).toBe(false);
    expect((await readAll(a, 'sealed'))!.stored).toMatchObject([{ event: { data: '{"action":"bash"}' } }]);
    await write(a, 'other', entry('r'));
    await queryDatabase(
      own,
      `UPDATE understudy.live_events e SET data = s.data FROM understudy.live_events s
       WHERE e.org = 'other' AND s.org = 'sealed'`,
    );
    await expect(readAll(a, 'other')).rejects.toThrow('damaged');
  });

  it('are lost when the server crashes; later ids are higher, and readers are told of the loss', async () => {
    if (!server.isOurs) return;
    const a = await open();
    await a.want(['crash']);
    await write(a, 'crash', entry('r'), entry('s'));
    const before = await readAll(a, 'crash');
    await server.kill();
    await server.resume();
    const b = await open();
    await b.want(['crash']);
    const after = await readAll(b, 'crash', before!.last_id);
    expect(after!.stored).toEqual([]);
    expect(after!.last_id).toBeGreaterThan(before!.last_id);
    expect(after!.lost_id).toBe(after!.last_id);
  });
});
