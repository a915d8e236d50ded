/**
 * The rate bucket: its tokens refill with time on the monotonic clock, so changes of the wall clock have no effect. A
 * timer keeps a bucket in memory while it is not full, because a passivated bucket would be full when it is loaded
 * again. Actor thread.
 */
import type { Behaviour, Refusal } from '../../src/runtime/protocol.ts';
import { RATE_BUCKET_KIND, type RateBucketProtocol, type RateLimit } from './protocol.ts';

interface Bucket {
  /** Tokens at `at_ms`; null before the first take: the full burst. */
  tokens: number | null;
  /** The time of `tokens`, on the monotonic clock. */
  at_ms: number;
  /** The limit of the last take, at whose rate the bucket refills. */
  limit: RateLimit;
  /** Whether the timer that keeps the bucket in memory is set. */
  awake: boolean;
}

interface BucketInternal {
  filled: null;
}

const BAD_LIMIT: Refusal = {
  code: 'bad_limit',
  message: 'cost must be at least 0, rate_per_s greater than 0, burst at least 1',
  retryable: false,
};
/** Sums of fractions of tokens may be slightly below a whole token. */
const ROUNDING = 1e-9;
/** Maximum duration of the timer, which is set again if the bucket is not full when the timer ends. */
const LONGEST_TIMER_MS = 3_600_000;

export const rateBucket: Behaviour<RateBucketProtocol, Bucket, never, BucketInternal> = {
  kind: RATE_BUCKET_KIND,
  initial: () => ({ tokens: null, at_ms: 0, limit: { rate_per_s: 1, burst: 1 }, awake: false }),

  handlers: {
    take(bucket, { cost, rate_per_s, burst }, context) {
      if (!(cost >= 0 && rate_per_s > 0 && burst >= 1 && Number.isFinite(cost + rate_per_s + burst))) {
        return context.refuse(BAD_LIMIT);
      }
      // Until now, the bucket has refilled at the old limit's rate. Tokens beyond the new burst are lost.
      const before =
        bucket.tokens === null ? burst : Math.min(burst, countTokens(bucket, context.monotonic_ms));
      const allowed = before + ROUNDING >= cost;
      const tokens = allowed ? Math.max(0, before - cost) : before;
      bucket.tokens = tokens;
      bucket.at_ms = context.monotonic_ms;
      bucket.limit = { rate_per_s, burst };
      const full_after_ms = waitFor(burst - tokens, rate_per_s);
      if (full_after_ms > 0 && !bucket.awake) {
        bucket.awake = true;
        context.setTimer('filled', Math.min(full_after_ms, LONGEST_TIMER_MS), 'filled', null);
      }
      context.reply({
        allowed,
        remaining: Math.floor(tokens + ROUNDING),
        retry_after_ms: allowed ? 0 : cost > burst ? null : waitFor(cost - tokens, rate_per_s),
        full_after_ms,
      });
    },
  },

  internal: {
    filled(bucket, _message, context) {
      const { rate_per_s, burst } = bucket.limit;
      const left = waitFor(burst - countTokens(bucket, context.monotonic_ms), rate_per_s);
      bucket.awake = left > 0;
      if (left > 0) context.setTimer('filled', Math.min(left, LONGEST_TIMER_MS), 'filled', null);
    },
  },
};

/** Counts the bucket's tokens at the given time. */
function countTokens({ tokens, at_ms, limit }: Bucket, nowMs: number): number {
  const gained = (Math.max(0, nowMs - at_ms) * limit.rate_per_s) / 1000;
  return Math.min(limit.burst, (tokens ?? limit.burst) + gained);
}

/** Computes how many milliseconds it takes until this many tokens have refilled, rounded up. */
function waitFor(tokens: number, ratePerS: number): number {
  return tokens <= ROUNDING ? 0 : Math.ceil((tokens * 1000) / ratePerS - ROUNDING);
}
