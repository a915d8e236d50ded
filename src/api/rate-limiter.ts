/**
 * The limiter's interface for the API's checks, and the headers that report it. Server threads.
 */
import type { ApiReply } from '../contract/route.ts';

/** The outcome of taking one request from a bucket. */
export interface RateOutcome {
  allowed: boolean;
  /** Requests that are still allowed immediately. */
  remaining: number;
  /** Seconds until the full burst is available again. */
  reset_s: number;
  /** The limit that applies to the key on this box; the same object until it changes. */
  limit: { rate_per_s: number; burst: number };
}

export interface RateLimiter {
  /** Takes one request from the key's bucket. Synchronous, except for a key that is new to this thread. */
  take(key: string): RateOutcome | Promise<RateOutcome>;
}

/**
 * The headers of draft-ietf-httpapi-ratelimit-headers. If several boxes share a database, each box
 * reports its own share of the key's limit.
 */
export class RateHeaders {
  #stated: RateOutcome['limit'] | null = null;
  #policy: readonly [string, string] = ['ratelimit-policy', ''];

  describe({ remaining, reset_s, limit }: RateOutcome): ApiReply['headers'] {
    if (limit !== this.#stated) {
      this.#stated = limit;
      const window_s = Math.max(1, Math.ceil(limit.burst / limit.rate_per_s));
      this.#policy = ['ratelimit-policy', `"default";q=${limit.burst};w=${window_s}`];
    }
    return [this.#policy, ['ratelimit', `"default";r=${remaining};t=${reset_s}`]];
  }
}
