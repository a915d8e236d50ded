/**
 * The rate bucket's messages. A limited key (an API key, a user) without a slot of the shared table (table.ts) has one
 * actor, in memory only. Any thread.
 */

export const RATE_BUCKET_KIND = 'rate-bucket';

/** A limit: at most `burst` tokens, refilled evenly at `rate_per_s`. */
export interface RateLimit {
  /** > 0 */
  rate_per_s: number;
  /** ≥ 1 */
  burst: number;
}

/** Each message contains the limit, so that a change applies from the next request on. */
export interface TakeRequest extends RateLimit {
  /** Number of tokens to take, ≥ 0; 0 only reads the state. */
  cost: number;
}

export interface TakeReply {
  allowed: boolean;
  /** Whole tokens left. */
  remaining: number;
  /** Milliseconds until the same take would be allowed; 0 if it was allowed, null if it never will be. */
  retry_after_ms: number | null;
  /** Milliseconds until the bucket is full, if no further tokens are taken. */
  full_after_ms: number;
}

export type RateBucketProtocol = {
  /** Takes all the tokens or none. Refused with `bad_limit` if a number is out of range. */
  take: { request: TakeRequest; reply: TakeReply };
};
