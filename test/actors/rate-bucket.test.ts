/** The rate bucket's decisions, without threads. */

import { describe, expect, it } from 'vitest';
import { rateBucket } from '../../actors/rate-bucket/behaviour.ts';
import type { TakeReply, TakeRequest } from '../../actors/rate-bucket/protocol.ts';
import { ActorKit } from '../../src/runtime/kit.ts';
import { createPrng } from '../../src/std/prng.ts';

const LIMIT = { rate_per_s: 10, burst: 5 };

function take(kit: ActorKit, request: Partial<TakeRequest> = {}): TakeReply {
  const answer = kit.ask('take', { cost: 1, ...LIMIT, ...request });
  if (answer.type !== 'reply') throw new Error(`answered with ${answer.type}`);
  return answer.value as TakeReply;
}

describe('a rate bucket', () => {
  it('gives its burst at once, then says when to retry', () => {
    const kit = new ActorKit(rateBucket);
    const replies = Array.from({ length: 7 }, () => take(kit));
    expect(replies.map((reply) => reply.allowed)).toEqual([true, true, true, true, true, false, false]);
    expect(replies.map((reply) => reply.remaining)).toEqual([4, 3, 2, 1, 0, 0, 0]);
    expect(replies[4]).toEqual({ allowed: true, remaining: 0, retry_after_ms: 0, full_after_ms: 500 });
    expect(replies[5]).toEqual({ allowed: false, remaining: 0, retry_after_ms: 100, full_after_ms: 500 });
  });

  it('allows a request at the moment that it named, and not before', () => {
    const kit = new ActorKit(rateBucket);
    take(kit, { cost: 5 });
    kit.advance(60);
    const { retry_after_ms } = take(kit);
    expect(retry_after_ms).toBe(40);
    kit.advance(39);
    expect(take(kit).allowed).toBe(false);
    kit.advance(1);
    expect(take(kit).allowed).toBe(true);
  });

  it('fills to its burst and no further', () => {
    const kit = new ActorKit(rateBucket);
    take(kit, { cost: 5 });
    kit.advance(3_600_000);
    expect(take(kit, { cost: 0 }).remaining).toBe(5);
  });

  it('gives the requested tokens or none, and never more than the burst', () => {
    const kit = new ActorKit(rateBucket);
    take(kit, { cost: 3 });
    expect(take(kit, { cost: 4 })).toMatchObject({ allowed: false, remaining: 2, retry_after_ms: 200 });
    expect(take(kit, { cost: 6 })).toMatchObject({ allowed: false, remaining: 2, retry_after_ms: null });
    expect(take(kit, { cost: 2 })).toMatchObject({ allowed: true, remaining: 0 });
  });

  it('neither gains nor loses tokens when the wall clock jumps', () => {
    const kit = new ActorKit(rateBucket, { now_ms: 1_000_000_000 });
    take(kit, { cost: 5 });
    for (const jump of [-600_000, 1_200_000, -86_400_000, 0]) {
      kit.setWallClock(kit.now_ms + jump);
      expect(take(kit)).toMatchObject({ allowed: false, retry_after_ms: 100 });
    }
    kit.advance(100);
    kit.setWallClock(0);
    expect(take(kit).allowed).toBe(true);
  });

  it('applies a new limit from the next message on', () => {
    const kit = new ActorKit(rateBucket);
    take(kit, { cost: 1 });
    expect(take(kit, { cost: 0, burst: 2 }).remaining).toBe(2);
    expect(take(kit, { cost: 0, burst: 100 }).remaining).toBe(2);
    take(kit, { cost: 2 });
    kit.advance(100);
    // The tenth of a second that has passed counts at the old rate of ten.
    expect(take(kit, { cost: 0, rate_per_s: 1000 }).remaining).toBe(1);
  });

  it('refuses values that are not numbers', () => {
    const kit = new ActorKit(rateBucket);
    for (const bad of [
      { cost: -1 },
      { cost: Number.NaN },
      { rate_per_s: 0 },
      { burst: 0 },
      { burst: Infinity },
    ]) {
      expect(kit.ask('take', { cost: 1, ...LIMIT, ...bad })).toMatchObject({
        type: 'refuse',
        error: { code: 'bad_limit', retryable: false },
      });
    }
    expect(take(kit).remaining).toBe(4);
  });

  it('stays in memory until it is full, by one timer', () => {
    const kit = new ActorKit(rateBucket);
    take(kit, { cost: 5 });
    expect(kit.timers()).toEqual({ filled: 500 });
    kit.advance(300);
    take(kit, { cost: 3 });
    expect(kit.timers()).toEqual({ filled: 200 });
    kit.advance(200);
    expect(kit.timers()).toEqual({ filled: 300 });
    kit.advance(300);
    expect(kit.timers()).toEqual({});
    expect(take(kit, { cost: 0 })).toMatchObject({ remaining: 5, full_after_ms: 0 });
    expect(kit.timers()).toEqual({});
  });

  it('never allows more than its burst and its refill', () => {
    for (let seed = 1; seed <= 20; seed++) {
      const prng = createPrng(seed);
      const kit = new ActorKit(rateBucket);
      const limit = { rate_per_s: 0.3 + prng.float() * 50, burst: 1 + prng.below(20) };
      let elapsedMs = 0;
      let taken = 0;
      for (let i = 0; i < 400; i++) {
        const pauseMs = prng.chance(0.7) ? prng.float() * 20 : prng.float() * 400;
        kit.advance(pauseMs);
        elapsedMs += pauseMs;
        if (take(kit, { cost: 1, ...limit }).allowed) taken++;
        expect(taken).toBeLessThanOrEqual(limit.burst + (elapsedMs * limit.rate_per_s) / 1000 + 1e-6);
      }
    }
  });
});
