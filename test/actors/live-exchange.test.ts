/**
 * The live stream of several boxes over a database in memory: a reader gets every event once and in order, or a reset,
 * whatever is lost on the way.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LiveExchange, type LiveFollower } from '../../actors/live-hub/exchange.ts';
import type { LiveTold, NumberedEvent } from '../../actors/live-hub/protocol.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { MemoryLive } from '../../src/storage/memory/live.ts';
import type { MemoryTrouble } from '../../src/storage/memory/truth.ts';
import type { LiveBatch, LiveEntry, LiveSession } from '../../src/storage/shared/live.ts';

const ORG = 'org';
const RING = { ring_events: 8, ring_bytes: 1 << 20, max_age_ms: null, poll_ms: 0, write_ms: 0, want_ms: 0 };

const entry = (run_id: string): LiveEntry => ({
  name: 'step',
  project_id: 'p',
  run_id,
  at_ms: 1,
  data: run_id,
});
const batch = (...runs: string[]): LiveBatch => ({
  org_id: ORG,
  has_lost: false,
  forgets: [],
  events: runs.map(entry),
});

/** A box with its exchange, which exchanges events with the database only when the test calls `round`. */
class Box {
  readonly exchange: LiveExchange;
  readonly #live: MemoryLive;
  #session: LiveSession | null = null;

  constructor(live: MemoryLive, ring = RING) {
    this.#live = live;
    this.exchange = new LiveExchange(ring, () => {});
  }

  async round(): Promise<void> {
    try {
      this.#session ??= await this.#live.openLive('box');
      await this.exchange.round(this.#session);
    } catch (thrown) {
      this.#session = null;
      this.exchange.fail(thrown as Error);
    }
  }

  /** Whether a batch has failed. The next batch then says that events are lost, as that of a hub does. */
  #hasLost = false;
  offer(given: LiveBatch): void {
    const sent = { ...given, has_lost: given.has_lost || this.#hasLost };
    this.#hasLost = false;
    this.exchange.offer(sent).catch(() => {
      this.#hasLost = true;
    });
  }

  get has_lost(): boolean {
    return this.#hasLost;
  }
}

/** A reader like those of src/api/live-readers.ts: it follows publications, and asks for a page after a missing one. */
class Reader {
  readonly seen: string[] = [];
  /** Ids in the order in which they came; null: a reset. */
  readonly ids: (number | null)[] = [];
  cursor: number | null;
  #box: Box;
  #isBehind = true;
  #isAsking = false;
  readonly #follower: LiveFollower = (told) => this.#hear(told);

  constructor(box: Box, cursor: number | null = null) {
    this.#box = box;
    this.cursor = cursor;
    box.exchange.follow(ORG, this.#follower);
  }

  leave(): void {
    this.#box.exchange.unfollow(ORG, this.#follower);
  }

  /** Connects to another box and resumes there, as a client does with Last-Event-ID. */
  move(box: Box): void {
    this.leave();
    this.#box = box;
    this.#isBehind = true;
    box.exchange.follow(ORG, this.#follower);
  }

  /** Asks for a page if something may be missing. */
  catchUp(): void {
    if (!this.#isBehind || this.#isAsking) return;
    this.#isAsking = true;
    const box = this.#box;
    box.exchange.replay(ORG, { after_id: this.cursor, project_id: null, limit: 3 }).then(
      (page) => {
        this.#isAsking = false;
        if (box !== this.#box) return;
        if (page.is_reset) this.ids.push(null);
        for (const event of page.events) this.#take(event);
        this.cursor = page.last_id;
        this.#isBehind = page.more;
      },
      () => {
        this.#isAsking = false;
      },
    );
  }

  #hear({ publications, ahead_id }: LiveTold): void {
    for (const publication of publications) {
      if (this.#isBehind || publication.previous_id !== this.cursor) this.#isBehind = true;
      else {
        this.#take(publication);
        this.cursor = publication.id;
      }
    }
    if (this.cursor === null || ahead_id > this.cursor) this.#isBehind = true;
  }

  #take({ id, run_id }: NumberedEvent): void {
    this.ids.push(id);
    this.seen.push(run_id!);
  }
}

async function settle(boxes: readonly Box[], readers: readonly Reader[], rounds = 12): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const reader of readers) reader.catchUp();
    for (const box of boxes) await box.round();
  }
}

describe('an exchange', () => {
  it('has what other boxes wrote, and loads older events than it holds for a reader that needs them', async () => {
    const live = new MemoryLive();
    const large = { ...RING, ring_events: 1_000 };
    const [a, b] = [new Box(live, large), new Box(live, large)];
    const first = new Reader(a);
    await settle([a, b], [first]);
    const runs = Array.from({ length: 20 }, (_, at) => `r${at}`);
    for (const run of runs) {
      b.offer(batch(run));
      await settle([b, a], [first], 2);
    }
    expect(first.seen).toEqual(runs);
    const late = new Reader(a, 1);
    await settle([a], [late]);
    expect(late.seen).toEqual(runs.slice(1));
    // The ring of the second box begins with the next event.
    const fresh = new Reader(b);
    await settle([b], [fresh]);
    const elsewhere = new Reader(b, 3);
    await settle([b], [elsewhere]);
    expect(fresh.seen).toEqual([]);
    expect(elsewhere.seen).toEqual(runs.slice(3));
    expect([...late.ids, ...elsewhere.ids]).not.toContain(null);
  });

  it('asks the database for events only of organizations that have readers', async () => {
    const live = new MemoryLive();
    const a = new Box(live);
    a.offer(batch('r'));
    await settle([a], []);
    expect(live.orgs.size).toBe(0);
    expect(a.exchange.due_in_ms).toBe(Number.POSITIVE_INFINITY);
    await expect(a.exchange.replay(ORG, { after_id: null, project_id: null, limit: 1 })).rejects.toThrow(
      'no followers',
    );
  });

  it('refuses while the database is away, and ends with its last reader', async () => {
    let trouble: MemoryTrouble = 'lost before';
    const live = new MemoryLive(() => trouble);
    const a = new Box(live);
    const follower: LiveFollower = () => {};
    a.exchange.follow(ORG, follower);
    const page = a.exchange.replay(ORG, { after_id: null, project_id: null, limit: 1 });
    const lost = expect(page).rejects.toThrow('cannot be reached');
    await a.round();
    await lost;
    await expect(a.exchange.offer(batch('r'))).rejects.toThrow('away');
    trouble = null;
    const left = expect(
      a.exchange.replay(ORG, { after_id: null, project_id: null, limit: 1 }),
    ).rejects.toThrow('has left');
    a.exchange.unfollow(null, follower);
    await left;
  });

  it('tells its followers if the database was restored and continues with lower numbers', async () => {
    const live = new MemoryLive();
    const a = new Box(live);
    const told: number[] = [];
    a.exchange.follow(ORG, ({ ahead_id }) => told.push(ahead_id));
    await a.round();
    a.offer(batch('r0', 'r1', 'r2'));
    await a.round();
    expect(told).toEqual([3]);
    live.orgs.clear();
    await a.round();
    expect(told).toEqual([3, 0]);
    const asked = a.exchange.replay(ORG, { after_id: 3, project_id: null, limit: 1 });
    await a.round();
    expect(await asked).toMatchObject({ is_reset: true, last_id: 0 });
    a.offer(batch('r3'));
    await a.round();
    expect(told).toEqual([3, 0, 1]);
  });

  it('no longer delivers events beyond the age limit', async () => {
    const live = new MemoryLive();
    const clock = createManualClock(1_000_000);
    const exchange = new LiveExchange({ ...RING, max_age_ms: 1_000 }, () => {}, clock);
    const session = await live.openLive('box');
    exchange.follow(ORG, () => {});
    await exchange.round(session);
    await session.write([
      {
        ...batch(),
        events: [
          { ...entry('old'), at_ms: clock.wallMs() - 1_001 },
          { ...entry('new'), at_ms: clock.wallMs() },
        ],
      },
    ]);
    await exchange.round(session);
    const asked = exchange.replay(ORG, { after_id: 0, project_id: null, limit: 10 });
    await exchange.round(session);
    const page = await asked;
    expect(page.is_reset).toBe(true);
    expect(page.events.map(({ run_id }) => run_id)).toEqual(['new']);
  });

  it('gives each reader every event once and in order, or a reset, whatever fails', async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('publish' as const), box: fc.nat(2) }),
      fc.record({ do: fc.constant('round' as const), box: fc.nat(2) }),
      fc.record({ do: fc.constant('ask' as const), reader: fc.nat(2) }),
      fc.record({ do: fc.constant('move' as const), reader: fc.nat(2), box: fc.nat(2) }),
      fc.record({
        do: fc.constant('trouble' as const),
        kind: fc.constantFrom<MemoryTrouble>('lost before', 'lost after'),
      }),
      fc.record({ do: fc.constant('crash' as const) }),
      fc.record({ do: fc.constant('unwanted' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const troubles: MemoryTrouble[] = [];
        const live = new MemoryLive(() => troubles.shift() ?? null, 12);
        const boxes = [new Box(live), new Box(live), new Box(live)];
        const readers = boxes.map((box) => new Reader(box));
        await settle(boxes, readers);
        let published = 0;
        for (const taken of steps) {
          if (taken.do === 'publish') boxes[taken.box]!.offer(batch(`r${published++}`));
          else if (taken.do === 'round') await boxes[taken.box]!.round();
          else if (taken.do === 'ask') readers[taken.reader]!.catchUp();
          else if (taken.do === 'move') readers[taken.reader]!.move(boxes[taken.box]!);
          else if (taken.do === 'trouble') troubles.push(taken.kind);
          else if (taken.do === 'crash') live.crash();
          else live.forgetReaders(ORG);
        }
        troubles.length = 0;
        await settle(boxes, readers, 6);
        // A hub whose batch was lost reports the loss in its next batch.
        for (const box of boxes) if (box.has_lost) box.offer(batch());
        await settle(boxes, readers);
        for (const box of boxes) box.offer(batch(`r${published++}`));
        await settle(boxes, readers);
        const all = Array.from({ length: published }, (_, at) => `r${at}`);
        for (const { seen, ids } of readers) {
          const numbers = ids.filter((id) => id !== null);
          expect(numbers).toEqual([...new Set(numbers)].sort((x, y) => x - y));
          expect(new Set(seen).size).toBe(seen.length);
          if (!ids.includes(null)) expect([...seen].sort()).toEqual([...all].sort());
          else expect(seen.slice(-3).sort()).toEqual(all.slice(-3).sort());
        }
      }),
      { numRuns: 300 },
    );
  });
});
