/**
 * Rate buckets in shared memory: their counts are exact, even across threads. Also how slots are assigned to keys,
 * and what a limiter does while the actors cannot be asked.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { divideLimit, OwnBuckets, SharedRateLimiter } from '../../actors/rate-bucket/client.ts';
import type { RateLimit } from '../../actors/rate-bucket/protocol.ts';
import { rateSlots, rateTableAdapter } from '../../actors/rate-bucket/slots.ts';
import type { SlotReply } from '../../actors/rate-bucket/slots-protocol.ts';
import {
  allocateRateTable,
  findOriginNs,
  RateTable,
  readMonotonicNs,
} from '../../actors/rate-bucket/table.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { ActorKit } from '../../src/runtime/kit.ts';
import type { RateTakerTask } from '../fixtures/rate-taker.ts';

const LIMIT = { rate_per_s: 200, burst: 400 };

/** A table whose clock moves only on request. */
function createTable(slots = 8) {
  const clock = { ms: 1e9 };
  const memory = allocateRateTable(slots);
  const table = new RateTable(memory, () => clock.ms * 1e6);
  return { clock, memory, table };
}

describe('a bucket', () => {
  it('gives its burst at once and then its rate', () => {
    const { clock, table } = createTable();
    const generation = table.open(0);
    const take = () => table.take(0, generation, LIMIT)!;
    const first = Array.from({ length: 500 }, take);
    expect(first.filter(({ allowed }) => allowed).length).toBe(400);
    expect(first[0]).toEqual({ allowed: true, remaining: 399, full_after_ms: 5, limit: LIMIT });
    expect(first[399]).toEqual({ allowed: true, remaining: 0, full_after_ms: 2_000, limit: LIMIT });
    expect(first[400]).toEqual({ allowed: false, remaining: 0, full_after_ms: 2_000, limit: LIMIT });
    clock.ms += 4;
    expect(take().allowed).toBe(false);
    clock.ms += 1;
    expect(take().allowed).toBe(true);
    expect(take().allowed).toBe(false);
    clock.ms += 1_000;
    expect(Array.from({ length: 300 }, take).filter(({ allowed }) => allowed).length).toBe(200);
    clock.ms += 3_600_000;
    expect(take().remaining).toBe(399);
  });

  it('allows the same requests as a plain token bucket, at any limit and any rhythm', () => {
    const steps = fc.array(fc.record({ wait_ms: fc.nat(3_000), takes: fc.integer({ min: 1, max: 40 }) }), {
      maxLength: 30,
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5_000 }),
        fc.integer({ min: 1, max: 200 }),
        steps,
        (rate, burst, all) => {
          const limit: RateLimit = { rate_per_s: rate, burst };
          const { clock, table } = createTable();
          const generation = table.open(3);
          let tokens = burst;
          for (const { wait_ms, takes } of all) {
            clock.ms += wait_ms;
            tokens = Math.min(burst, tokens + (wait_ms * rate) / 1000);
            for (let at = 0; at < takes; at++) {
              const { allowed } = table.take(3, generation, limit)!;
              // Near exactly one token, the two may differ because one of them rounds to nanoseconds.
              if (Math.abs(tokens - 1) > 1e-3) expect(allowed).toBe(tokens >= 1);
              if (allowed) tokens -= 1;
            }
          }
        },
      ),
    );
  });

  it('is exact over threads', async () => {
    const workers = 4;
    const memory = allocateRateTable(4);
    const generation = new RateTable(memory).open(1);
    const burst = 50_000;
    const task: RateTakerTask = {
      memory,
      slot: 1,
      generation,
      // One token in three hours: practically no refill during the test.
      limit: { rate_per_s: 1e-4, burst },
      takes: 40_000,
      barrier: new SharedArrayBuffer(4),
      workers,
    };
    const file = new URL('../fixtures/rate-taker.ts', import.meta.url);
    const counts = await Promise.all(
      Array.from({ length: workers }, async () => {
        const worker = new Worker(file, { workerData: task });
        const [allowed] = (await once(worker, 'message')) as [number];
        return allowed;
      }),
    );
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(burst);
  });

  it('gives all of its burst even if another thread takes tokens while this one reads the clock', () => {
    const clock = { ms: 1e9 };
    const memory = allocateRateTable(8);
    const other = new RateTable(memory, () => clock.ms * 1e6);
    const generation = other.open(0);
    const limit: RateLimit = { rate_per_s: 1, burst: 5 };
    const outcomes: boolean[] = [];
    const takeOther = () => outcomes.push(other.take(0, generation, limit)!.allowed);
    let waits = 4;
    const table = new RateTable(memory, () => {
      const readMs = clock.ms;
      // Here this thread loses its core, and another thread takes tokens.
      if (waits-- > 0) {
        clock.ms += 3;
        takeOther();
      }
      return readMs * 1e6;
    });
    outcomes.push(table.take(0, generation, limit)!.allowed);
    expect(outcomes).toEqual([true, true, true, true, true]);
    expect(other.take(0, generation, limit)!.allowed).toBe(false);
  });

  it('has a clock that is right even if its thread had to wait between the two readings that set it', () => {
    let reads = 0;
    const originNs = findOriginNs(() => {
      if (reads++ === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      return Number(process.hrtime.bigint());
    });
    const aheadMs = (originNs - (readMonotonicNs() - performance.now() * 1e6)) / 1e6;
    expect(Math.abs(aheadMs)).toBeLessThan(50);
  });

  it('is closed to its former owner once its slot has a new owner', () => {
    const { table } = createTable();
    const first = table.open(0);
    table.take(0, first, { rate_per_s: 1, burst: 1 });
    const second = table.open(0);
    expect(table.take(0, first, LIMIT)).toBeNull();
    expect(table.take(0, second, { rate_per_s: 1, burst: 1 })).toMatchObject({ allowed: true });
  });
});

/** An asker that reaches only the actor that assigns slots, with its adapter. Requests to other actors fail. */
function createSlots(slots: number) {
  const { clock, memory, table } = createTable(slots);
  const kit = new ActorKit(rateSlots(slots));
  const adapter = rateTableAdapter(table);
  const settle = async () => {
    for (const effect of kit.takeEffectsOf('io')) {
      const operation = effect.operation as 'open' | 'findIdle';
      kit.finish(
        effect,
        await (operation === 'open'
          ? adapter.open(effect.input as { key: string; slot: number })
          : adapter.findIdle()),
      );
    }
  };
  const state = { isDown: false, asked: 0, buckets: 0 };
  const asker: Asker = {
    tell: () => false,
    ask: async (to, name, payload) => {
      state.asked++;
      if (state.isDown) throw new Error('down');
      if (to.kind !== 'rate-slots') {
        state.buckets++;
        return { allowed: true, remaining: 1, retry_after_ms: 0, full_after_ms: 5 };
      }
      const answer = kit.ask(name, payload);
      await settle();
      if (answer.type === 'reply') return answer.value;
      if (answer.type !== 'held') throw new Error(`answered with ${answer.type}`);
      const later = kit.answerTo(answer.token);
      if (later.type !== 'reply') throw new Error(`answered later with ${later.type}`);
      return later.value;
    },
  };
  const assign = async (key: string) =>
    ((await asker.ask({ kind: 'rate-slots', key: 'table' }, 'assign', { key })) as SlotReply).slot;
  return { assign, asker, clock, kit, memory, state, table, now: () => clock.ms * 1e6 };
}

describe('the owner of a slot', () => {
  it('is the same for every thread that asks', async () => {
    const { assign } = createSlots(4);
    const first = await assign('a');
    expect(await assign('a')).toEqual(first);
    expect((await assign('b'))?.slot).not.toBe(first?.slot);
  });

  it('keeps a slot in use when all are taken; only idle slots are reused', async () => {
    const { assign, table, clock, kit } = createSlots(2);
    const a = (await assign('a'))!;
    const b = (await assign('b'))!;
    expect(await assign('c')).toBeNull();
    expect(await assign('c')).toBeNull();
    clock.ms += 61_000;
    kit.advance(61_000);
    table.take(b.slot, b.generation, LIMIT);
    // The first request makes the actor look for idle slots, and is answered without waiting for the result.
    expect(await assign('c')).toBeNull();
    const c = (await assign('c'))!;
    expect(c.slot).toBe(a.slot);
    expect(table.take(a.slot, a.generation, LIMIT)).toBeNull();
    expect(table.take(b.slot, b.generation, LIMIT)).toMatchObject({ allowed: true, remaining: 398 });
    expect(await assign('a')).toBeNull();
  });

  it('asks again after a restart of the actor', async () => {
    const { assign, kit, table } = createSlots(4);
    const before = (await assign('a'))!;
    kit.restart();
    const stranger = (await assign('b'))!;
    expect(stranger.slot).toBe(before.slot);
    expect(table.take(before.slot, before.generation, LIMIT)).toBeNull();
    expect((await assign('a'))!.slot).not.toBe(before.slot);
  });
});

describe('the limiter of a thread', () => {
  it('asks once for a key, whatever the number of requests, and then answers at once', async () => {
    const { asker, memory, state, now } = createSlots(4);
    const limiter = new SharedRateLimiter(asker, memory, () => LIMIT, null, now);
    const outcomes = await Promise.all(Array.from({ length: 450 }, () => limiter.take('a')));
    expect(outcomes.filter(({ allowed }) => allowed).length).toBe(400);
    expect(state.asked).toBe(1);
    expect(limiter.take('a')).toMatchObject({ allowed: false });
    expect(state.asked).toBe(1);
  });

  it('shares its buckets with the limiters of other threads, separately for each key', async () => {
    const { asker, memory, now } = createSlots(4);
    const [first, second] = [0, 1].map(() => new SharedRateLimiter(asker, memory, () => LIMIT, null, now));
    let allowed = 0;
    for (let at = 0; at < 300; at++) {
      if ((await first!.take('a')).allowed) allowed++;
      if ((await second!.take('a')).allowed) allowed++;
    }
    expect(allowed).toBe(400);
    expect(await second!.take('b')).toMatchObject({ allowed: true, remaining: 399 });
  });

  it('lets the actor count for a key without a slot, and asks for a slot again later', async () => {
    const { asker, memory, state, clock, kit, now } = createSlots(2);
    const limiter = new SharedRateLimiter(asker, memory, () => LIMIT, null, now);
    for (const key of ['a', 'b', 'c', 'c']) await limiter.take(key);
    expect(state).toMatchObject({ buckets: 2, asked: 5 });
    clock.ms += 120_000;
    kit.advance(120_000);
    await limiter.take('c');
    clock.ms += 2_000;
    kit.advance(2_000);
    expect(await limiter.take('c')).toMatchObject({ allowed: true, remaining: 399 });
    expect(state.buckets).toBe(3);
  });

  it('counts locally while the actors cannot be asked', async () => {
    const { asker, memory, state, now } = createSlots(2);
    state.isDown = true;
    const limiter = new SharedRateLimiter(asker, memory, () => LIMIT, null, now);
    let allowed = 0;
    for (let at = 0; at < 500; at++) if ((await limiter.take('a')).allowed) allowed++;
    expect(allowed).toBe(400);
    state.isDown = false;
    await limiter.take('a');
    expect(limiter.take('a')).toMatchObject({ allowed: true, remaining: 398 });
  });
});

describe('a limit that boxes share', () => {
  it('is divided among them, with at least one request at once, and changes with their number', () => {
    let boxes = 1;
    const limit = { rate_per_s: 200, burst: 5 };
    const part = divideLimit(limit, () => boxes);
    expect(part()).toBe(limit);
    boxes = 2;
    expect(part()).toEqual({ rate_per_s: 100, burst: 2 });
    expect(part()).toBe(part());
    boxes = 1_000;
    expect(part()).toEqual({ rate_per_s: 0.2, burst: 1 });
    boxes = 1;
    expect(part()).toEqual(limit);
  });

  it('allows the boxes together what it allows one box, also when their number changes', async () => {
    let boxes = 1;
    const nodes = [createSlots(4), createSlots(4)].map(({ asker, memory, now, clock }) => ({
      clock,
      limiter: new SharedRateLimiter(
        asker,
        memory,
        divideLimit(LIMIT, () => boxes),
        null,
        now,
      ),
    }));
    const countAllowed = async (asked: typeof nodes) => {
      let allowed = 0;
      for (const { limiter } of asked)
        for (let at = 0; at < 500; at++) if ((await limiter.take('a')).allowed) allowed++;
      return allowed;
    };
    boxes = 2;
    expect(await countAllowed(nodes)).toBe(400);
    for (const { clock } of nodes) clock.ms += 1_000;
    expect(await countAllowed(nodes)).toBe(200);
    boxes = 1;
    const [last] = nodes;
    last!.clock.ms += 1_000;
    expect(await countAllowed([last!])).toBe(200);
  });
});

describe('buckets of a single thread', () => {
  it('are separate for each key', () => {
    const own = new OwnBuckets(
      () => ({ rate_per_s: 1, burst: 2 }),
      () => 1e15,
    );
    for (let at = 0; at < 10_000; at++)
      expect(own.take(`k${at}`)).toMatchObject({ allowed: true, remaining: 1 });
    expect(own.take('k9999')).toMatchObject({ allowed: true, remaining: 0 });
    expect(own.take('k9999')).toMatchObject({ allowed: false });
    expect(own.take('k9998').remaining).toBe(0);
  });
});
