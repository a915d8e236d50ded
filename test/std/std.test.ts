/** Modules of src/std that need nothing of the product: the clock, the random generator, queues, maps, identifiers. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AssertionError, assert } from '../../src/std/assert.ts';
import { createManualClock, systemClock } from '../../src/std/clock.ts';
import { createDeferred } from '../../src/std/deferred.ts';
import { createUlidSource } from '../../src/std/id.ts';
import { LinkedMap } from '../../src/std/linked-map.ts';
import { createPrng } from '../../src/std/prng.ts';
import { RecentMap } from '../../src/std/recent-map.ts';
import { RingQueue } from '../../src/std/ring-queue.ts';
import { SlotTable } from '../../src/std/slot-table.ts';

describe('the clock', () => {
  it('never goes back, and has the origin of process.hrtime', () => {
    const readings = Array.from({ length: 1000 }, () => systemClock.monotonicMs());
    expect(readings).toEqual(readings.toSorted((a, b) => a - b));
    const [seconds, nanoseconds] = process.hrtime();
    expect(Math.abs(seconds * 1000 + nanoseconds / 1e6 - readings.at(-1)!)).toBeLessThan(60_000);
  });

  it('gives monotonic readings that are comparable across threads', async () => {
    const module = JSON.stringify(new URL('../../src/std/clock.ts', import.meta.url).href);
    const program = `
      const { parentPort } = require('node:worker_threads');
      import(${module}).then(({ systemClock }) => parentPort.postMessage(systemClock.monotonicMs()));`;
    const before = systemClock.monotonicMs();
    const worker = new Worker(program, { eval: true });
    const [there] = (await once(worker, 'message')) as [number];
    const after = systemClock.monotonicMs();
    expect(there).toBeGreaterThan(before);
    expect(there).toBeLessThan(after);
    await worker.terminate();
  });

  it('moves only forward, and if it is a manual clock, only on request', () => {
    const clock = createManualClock(1_000);
    clock.advance(2.5);
    expect([clock.wallMs(), clock.monotonicMs()]).toEqual([1_002.5, 2.5]);
    expect(() => clock.advance(-1)).toThrow(RangeError);
    expect(() => clock.advance(Number.NaN)).toThrow(RangeError);
  });
});

describe('the random generator', () => {
  it('is the same for the same seed and differs between neighbours', () => {
    const draw = (seed: number) => {
      const prng = createPrng(seed);
      return Array.from({ length: 50 }, () => prng.uint32());
    };
    expect(draw(7)).toEqual(draw(7));
    const distinct = new Set([0, 1, 2, 3, -1].flatMap(draw));
    expect(distinct.size).toBe(250);
  });

  it('stays in its ranges and covers them', () => {
    const prng = createPrng(1);
    const counts = new Array<number>(10).fill(0);
    for (let i = 0; i < 100_000; i++) counts[prng.below(10)]!++;
    for (const count of counts) expect(Math.abs(count - 10_000)).toBeLessThan(600);
    for (let i = 0; i < 1000; i++) {
      const value = prng.float();
      expect(value >= 0 && value < 1).toBe(true);
    }
    expect(prng.chance(0)).toBe(false);
    expect(prng.chance(1)).toBe(true);
    expect(prng.below(1)).toBe(0);
  });
});

describe('the ring queue', () => {
  it('agrees with a plain array, through growth and wrapping', () => {
    const prng = createPrng(3);
    for (const capacity of [1, 2, 7, 8, 9, 100]) {
      const queue = new RingQueue<number>(capacity);
      const model: number[] = [];
      for (let i = 0; i < 2_000; i++) {
        if (prng.chance(0.55)) {
          const takes = model.length < capacity;
          if (takes) model.push(i);
          expect(queue.push(i)).toBe(takes);
        } else {
          expect(queue.shift()).toBe(model.shift());
        }
        expect([queue.size, queue.full, queue.peek()]).toEqual([
          model.length,
          model.length === capacity,
          model[0],
        ]);
      }
      expect(queue.toArray()).toEqual(model);
      queue.clear();
      expect([queue.size, queue.shift()]).toEqual([0, undefined]);
    }
  });

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])('refuses a capacity of %s', (capacity) => {
    expect(() => new RingQueue(capacity)).toThrow(RangeError);
  });
});

describe('the slot table', () => {
  it('agrees with a map, and never finds an item by the number of an earlier one', () => {
    const table = new SlotTable<number>();
    const expected = new Map<number, number>();
    const gone: number[] = [];
    const random = createPrng(11);
    for (let i = 0; i < 5_000; i++) {
      if (expected.size === 0 || random.chance(i < 2_500 ? 0.55 : 0.45)) {
        const number = table.add(i);
        expect(expected.has(number)).toBe(false);
        expected.set(number, i);
      } else {
        const number = [...expected.keys()][random.below(expected.size)]!;
        expect(table.take(number)).toBe(expected.get(number));
        expected.delete(number);
        gone.push(number);
      }
      expect(table.size).toBe(expected.size);
    }
    for (const number of [...gone, 0, 1, 2 ** 20]) {
      if (!expected.has(number)) expect(table.take(number)).toBeUndefined();
    }
    expect(new Map(table.entries())).toEqual(expected);
    for (const [number] of table.entries()) table.take(number);
    expect([table.size, ...table.entries()]).toEqual([0]);
  });
});

describe('a ULID', () => {
  it('sorts by time, and by order within a millisecond and when the clock goes back', () => {
    const times = [5, 5, 5, 9, 4, 4, 10];
    const newId = createUlidSource({ wallMs: () => times.shift()!, monotonicMs: () => 0 });
    const ids = Array.from({ length: 7 }, () => newId());
    expect(ids).toEqual(ids.toSorted());
    expect(new Set(ids).size).toBe(7);
    expect(ids.map((id) => id.slice(0, 10))).toEqual(
      [5, 5, 5, 9, 9, 9].map((ms) => `000000000${ms}`).concat('000000000A'),
    );
  });

  it('increases by one within a millisecond, with a carry over any number of digits', () => {
    const digits = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
    const newId = createUlidSource({ wallMs: () => 7, monotonicMs: () => 0 }, (target) => {
      target.fill(31);
      target[0] = 1;
      target[12] = 30;
    });
    const numberOf = (id: string) =>
      [...id.slice(10)].reduce((sum, digit) => sum * 32n + BigInt(digits.indexOf(digit)), 0n);
    const ids = Array.from({ length: 3_000 }, () => newId());
    const first = numberOf(ids[0]!);
    expect(ids.map(numberOf)).toEqual(ids.map((_, at) => first + BigInt(at)));
    expect(new Set(ids.map((id) => id.slice(0, 10)))).toEqual(new Set(['0000000007']));
  });

  it('carries over when the random part is exhausted', () => {
    const newId = createUlidSource(
      { wallMs: () => 1, monotonicMs: () => 0 },
      (target) => void target.fill(255),
    );
    const [first, second] = [newId(), newId()];
    expect(first).toBe('0000000001ZZZZZZZZZZZZZZZZ');
    expect(second).toBe('00000000020000000000000000');
  });

  it('has the specified form', () => {
    const newId = createUlidSource({ wallMs: () => 1469918176385, monotonicMs: () => 0 });
    expect(newId().slice(0, 10)).toBe('01ARYZ6S41');
  });
});

describe('an assertion', () => {
  it('passes what holds and throws what does not', () => {
    assert(1, 'one');
    expect(() => assert(0, 'zero')).toThrow(new AssertionError('zero'));
  });
});

describe('a deferred', () => {
  it('is settled from outside, once', async () => {
    const deferred = createDeferred<number>();
    deferred.resolve(1);
    deferred.reject(new Error('too late'));
    expect(await deferred.promise).toBe(1);
    const failing = createDeferred();
    failing.reject(new Error('no'));
    await expect(failing.promise).rejects.toThrow('no');
  });
});

describe('the linked map', () => {
  const step = fc.oneof(
    fc.record({ call: fc.constantFrom('get', 'peek', 'delete'), key: fc.nat(8) }),
    fc.record({ call: fc.constant('set'), key: fc.nat(8), value: fc.nat(100) }),
    fc.record({ call: fc.constant('clear'), key: fc.constant(0) }),
  );

  it('behaves like a Map whose keys are set again on each use', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const linked = new LinkedMap<number, number>();
        const model = new Map<number, number>();
        for (const { call, key, ...rest } of steps) {
          const value = (rest as { value?: number }).value ?? 0;
          const known = model.get(key);
          if (call === 'peek') expect(linked.peek(key)).toBe(known);
          else if (call === 'delete') expect(linked.delete(key)).toBe(model.delete(key));
          else if (call === 'clear') {
            linked.clear();
            model.clear();
          } else {
            if (call === 'get') expect(linked.get(key)).toBe(known);
            else linked.set(key, value);
            if (call === 'get' && known === undefined) continue;
            model.delete(key);
            model.set(key, call === 'get' ? known! : value);
          }
          expect(linked.size).toBe(model.size);
          expect(linked.oldest).toBe(model.values().next().value);
        }
      }),
    );
  });
});

describe('the map of recent entries', () => {
  it('always keeps the latest entries up to half of its bound, and never more than its bound', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(40), { maxLength: 200 }), fc.integer({ min: 2, max: 20 }), (keys, max) => {
        const map = new RecentMap<number, number>(max);
        const setAt = new Map<number, number>();
        keys.forEach((key, at) => {
          map.set(key, at);
          setAt.delete(key);
          setAt.set(key, at);
          expect(map.size).toBeLessThanOrEqual(max);
          const latest = [...setAt].slice(-Math.max(1, max >>> 1));
          for (const [recent, value] of latest) expect(map.get(recent)).toBe(value);
          for (const [other, value] of setAt) expect([value, undefined]).toContain(map.get(other));
        });
      }),
    );
  });

  it('limits by weight, too, if entries have one', () => {
    const calls = fc.array(fc.tuple(fc.nat(12), fc.integer({ min: 1, max: 12 })), { maxLength: 100 });
    fc.assert(
      fc.property(calls, fc.integer({ min: 2, max: 30 }), (entries, max) => {
        const map = new RecentMap<string, number>(max);
        const half = Math.max(1, max >>> 1);
        const weights = new Map<string, number>();
        for (const [key, weight] of entries) {
          const name = `${key} of ${weight}`;
          map.set(name, weight, weight);
          weights.delete(name);
          weights.set(name, weight);
          let held = 0;
          let heaviest = 0;
          for (const [known, weight] of weights) {
            if (map.get(known) === undefined) continue;
            held += weight;
            heaviest = Math.max(heaviest, weight);
          }
          expect(held).toBeLessThanOrEqual(Math.max(2 * half, 2 * heaviest, half + heaviest));
          let latest = 0;
          for (const [recent, weight] of [...weights].reverse()) {
            latest += weight;
            if (latest > half) break;
            expect(map.get(recent)).toBe(weight);
          }
        }
        expect(map.get(`${entries.at(-1)?.[0]} of ${entries.at(-1)?.[1]}`)).toBe(entries.at(-1)?.[1]);
      }),
    );
  });

  it('is empty after it is cleared', () => {
    const map = new RecentMap<string, number>(2);
    for (const key of ['a', 'b', 'c']) map.set(key, 1);
    map.clear();
    expect([map.size, map.get('a'), map.get('c')]).toEqual([0, undefined, undefined]);
  });
});
