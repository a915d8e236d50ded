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
}

export interface RateLimiter {
  /** Takes one request from the key's bucket. Synchronous, except for a key that is new to this thread. */
  take(key: string): RateOutcome | Promise<RateOutcome>;
}

/** The headers of draft-ietf-httpapi-ratelimit-headers; the policy is the same for every key. */
export class RateHeaders {
  readonly #policy: readonly [string, string];

  constructor(ratePerS: number, burst: number) {
    const window_s = Math.max(1, Math.ceil(burst / ratePerS));
    this.#policy = ['ratelimit-policy', `"default";q=${burst};w=${window_s}`];
  }

  describe({ remaining, reset_s }: RateOutcome): ApiReply['headers'] {
    return [this.#policy, ['ratelimit', `"default";r=${remaining};t=${reset_s}`]];
  }
}
