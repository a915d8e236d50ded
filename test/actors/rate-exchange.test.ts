/**
 * Boxes that divide the rates of keys: the parts follow the requests and never add up to more than the whole, in any
 * order of events, and also if the database loses answers or all of its data. Test thread.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { divideLimit, SharedRateLimiter } from '../../actors/rate-bucket/client.ts';
import { RateExchange } from '../../actors/rate-bucket/exchange.ts';
import { RateShares } from '../../actors/rate-bucket/shares.ts';
import { rateTableAdapter } from '../../actors/rate-bucket/slots.ts';
import { allocateRateTable, RateTable } from '../../actors/rate-bucket/table.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { MemoryLive } from '../../src/storage/memory/live.ts';
import type { MemoryTrouble } from '../../src/storage/memory/truth.ts';
import type { LiveSession } from '../../src/storage/shared/live.ts';
import { drawsOf } from '../long-parts.ts';

/** A limit whose burst takes many beats to refill. */
const LIMIT = { rate_per_s: 20, burst: 400 };
const SLOTS = 8;
const BEAT_MS = 2_000;

/** A box with its limiter and its exchange, which acts only when the test calls `beat`. */
class Box {
  readonly limiter: SharedRateLimiter;
  readonly #live: MemoryLive;
  readonly #name: string;
  readonly #exchange: RateExchange;
  readonly #shares: RateShares;
  #session: LiveSession | null = null;
  #answers: string[][] = [];
  #known = new Set<string>();

  constructor(live: MemoryLive, name: string, now: () => number) {
    this.#live = live;
    this.#name = name;
    const [memory, parts] = [allocateRateTable(SLOTS), RateShares.allocate(SLOTS)];
    this.#shares = new RateShares(parts);
    const table = new RateTable(memory, now);
    const limit = divideLimit(LIMIT, () => Math.max(1, this.#known.size));
    this.#exchange = new RateExchange({ table, shares: this.#shares }, limit, now);
    this.limiter = new SharedRateLimiter(slotsOf(table, this.#shares), memory, limit, parts, now);
  }

  /** @returns whether the database answered */
  async beat(): Promise<boolean> {
    try {
      this.#session ??= await this.#live.openLive(this.#name);
      // Known boxes are those of the last three answers, as in the pulse.
      this.#answers = [...this.#answers, await this.#session.beat()].slice(-3);
      this.#known = new Set(this.#answers.flat());
      await this.#exchange.round(this.#session, this.#name, this.#known);
      return true;
    } catch {
      this.#session = null;
      return false;
    }
  }

  /** @returns the part of the key's rate that this box may use */
  partOf(key: string): number {
    return this.#shares.partOfKey(key) ?? 1 / Math.max(1, this.#known.size);
  }

  async ask(key: string, times: number): Promise<number> {
    let allowed = 0;
    for (let at = 0; at < times; at++) if ((await this.limiter.take(key)).allowed) allowed++;
    return allowed;
  }
}

/** Gives slots to keys in their order. */
function slotsOf(table: RateTable, shares: RateShares): Asker {
  const adapter = rateTableAdapter(table, shares);
  let next = 0;
  return {
    tell: () => false,
    ask: async (_, __, payload) => {
      if (next >= SLOTS) throw new Error('all slots are in use');
      const slot = next++;
      const { key } = payload as { key: string };
      return { slot: { slot, generation: await adapter.open({ key, slot }) } };
    },
  };
}

async function openBoxes(count: number, live = new MemoryLive()) {
  const clock = { ms: 1e9 };
  const boxes = Array.from({ length: count }, (_, at) => new Box(live, `box ${at}`, () => clock.ms * 1e6));
  const beat = async () => {
    clock.ms += BEAT_MS;
    for (const box of boxes) await box.beat();
  };
  await beat();
  await beat();
  return { boxes, clock, beat, live };
}

describe('a key whose requests all reach one of three boxes', () => {
  it('has nearly its whole rate after two beats, and returns to equal parts without requests', async () => {
    const { boxes, clock, beat } = await openBoxes(3);
    const [first, second] = boxes as [Box, Box, Box];
    expect(first.partOf('k')).toBeCloseTo(1 / 3);
    expect(await first.ask('k', 500)).toBe(133);
    await beat();
    await first.ask('k', 500);
    await beat();
    expect(first.partOf('k')).toBeCloseTo(0.9 + 0.1 / 3, 1);
    // A key with few requests keeps equal parts. The other boxes allow the first requests of the busy key.
    expect(first.partOf('other')).toBeCloseTo(1 / 3);
    expect(await second.ask('k', 3)).toBe(3);
    clock.ms += 10_000;
    expect(await first.ask('k', 1_000)).toBeGreaterThan(180);
    for (let at = 0; at < 30; at++) await beat();
    expect(boxes.map((box) => box.partOf('k'))).toEqual([1 / 3, 1 / 3, 1 / 3]);
  });

  it('gets its larger share only as tokens refill, because other boxes may have used the present ones', async () => {
    const { boxes, beat } = await openBoxes(3);
    const [first] = boxes as [Box, Box, Box];
    const left = 133 - (await first.ask('k', 70));
    await beat();
    await beat();
    expect(first.partOf('k')).toBeGreaterThan(0.9);
    const gained = (2 * BEAT_MS * LIMIT.rate_per_s) / 1_000;
    expect(await first.ask('k', 1_000)).toBeLessThanOrEqual(left + gained);
  });

  it('is also divided with a box that opens a slot for it later, or that starts later', async () => {
    const { boxes, beat, live, clock } = await openBoxes(2);
    const [first, second] = boxes as [Box, Box];
    for (let at = 0; at < 4; at++) {
      await first.ask('k', 500);
      await beat();
    }
    const { limit } = await second.limiter.take('k');
    expect(limit).toEqual({ rate_per_s: expect.closeTo(1, 0), burst: 20 });
    const late = new Box(live, 'late', () => clock.ms * 1e6);
    await late.beat();
    expect((await late.limiter.take('k')).limit.burst).toBe(13);
  });
});

/** The bucket of a single box. The requests that several boxes allow together must fit into it. */
class WholeBucket {
  tokens = LIMIT.burst;
  #atMs: number;

  constructor(atMs: number) {
    this.#atMs = atMs;
  }

  take(times: number, atMs: number): number {
    const gained = ((atMs - this.#atMs) * LIMIT.rate_per_s) / 1_000;
    this.tokens = Math.min(LIMIT.burst, this.tokens + gained) - times;
    this.#atMs = atMs;
    return this.tokens;
  }
}

describe('boxes with random requests', () => {
  const KEYS = ['k', 'l'];
  const ask = fc.record({ box: fc.nat(2), key: fc.constantFrom(...KEYS), times: fc.nat(400) });
  /** Requests, the boxes that beat at the same time afterwards, and the time until the next step. */
  const step = fc.record({
    asks: fc.array(ask, { maxLength: 3 }),
    beats: fc.subarray([0, 1, 2]),
    wait_ms: fc.oneof(fc.nat(3_000), fc.constant(10_000)),
  });
  const steps = fc.array(step, { minLength: 10, maxLength: 60, size: 'max' });
  const trouble = fc.constantFrom<MemoryTrouble>(null, null, null, null, 'lost before', 'lost after');

  it('together never allow more than one box does, even if the database loses requests and answers', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: 3 }),
        steps,
        fc.infiniteStream(trouble),
        async (count, acts, troubles) => {
          let isTroubled = false;
          const live = new MemoryLive(() => (isTroubled ? troubles.next().value! : null));
          const { boxes, clock } = await openBoxes(count, live);
          isTroubled = true;
          const whole = new Map(KEYS.map((key) => [key, new WholeBucket(clock.ms)]));
          for (const { asks, beats, wait_ms } of acts) {
            for (const { box, key, times } of asks) {
              const allowed = await boxes[box % count]!.ask(key, times);
              // Rounding may give each box one token more.
              expect(whole.get(key)!.take(allowed, clock.ms)).toBeGreaterThanOrEqual(-count);
            }
            const beating = boxes.filter((_, at) => beats.includes(at)).map((box) => box.beat());
            await Promise.all(beating);
            for (const key of KEYS)
              expect(boxes.reduce((all, box) => all + box.partOf(key), 0)).toBeLessThanOrEqual(1 + 1e-6);
            clock.ms += wait_ms;
          }
        },
      ),
      drawsOf(150),
    );
  });

  it('keep their parts when the database has lost everything', async () => {
    const { boxes, beat, live } = await openBoxes(2);
    const [first, second] = boxes as [Box, Box];
    for (let at = 0; at < 4; at++) {
      await first.ask('k', 500);
      await beat();
    }
    const before = [first.partOf('k'), second.partOf('k')];
    live.crash();
    for (let at = 0; at < 3; at++) {
      await second.ask('k', 1);
      await first.ask('k', 500);
      await beat();
      expect(first.partOf('k') + second.partOf('k')).toBeLessThanOrEqual(1 + 1e-6);
    }
    expect(first.partOf('k')).toBeCloseTo(before[0]!, 1);
    expect(second.partOf('k')).toBeCloseTo(before[1]!, 1);
  });

  it('divide keys equally beyond the number of keys that the database stores', async () => {
    const { boxes, beat } = await openBoxes(2, new MemoryLive(() => null, 10, 1));
    const [first] = boxes as [Box, Box];
    for (let at = 0; at < 4; at++) {
      await first.ask('a', 500);
      await first.ask('b', 400);
      await beat();
    }
    const parts = ['a', 'b'].map((key) => boxes.map((box) => box.partOf(key)));
    expect(parts.filter(([own]) => own! > 0.9)).toHaveLength(1);
    expect(parts.filter(([own, other]) => own === 0.5 && other === 0.5)).toHaveLength(1);
  });
});
