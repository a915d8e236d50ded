/**
 * What a rate bucket understands. One actor a limited key (an API key, a user); it lives in memory.
 * Any thread.
 */

export const RATE_BUCKET_KIND = 'rate-bucket';

/** A limit: `burst` tokens at most, `rate_per_s` new ones a second, spread evenly. */
export interface RateLimit {
  /** > 0 */
  rate_per_s: number;
  /** ≥ 1 */
  burst: number;
}

/** The limit comes with each message, so that a change of it holds from the next request on. */
export interface TakeRequest extends RateLimit {
  /** Tokens to take, ≥ 0; 0 only looks. */
  cost: number;
}

export interface TakeReply {
  allowed: boolean;
  /** Whole tokens left. */
  remaining: number;
  /** When the same take would be allowed, in milliseconds from now; 0 when it was, null when it never will be. */
  retry_after_ms: number | null;
  /** When the bucket is full again if no more is taken, in milliseconds from now. */
  full_after_ms: number;
}

export type RateBucketProtocol = {
  /** Takes the tokens or none. Refused with `bad_limit` when a number is out of its range. */
  take: { request: TakeRequest; reply: TakeReply };
};
