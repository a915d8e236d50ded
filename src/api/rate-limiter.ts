/** What the API's checks need of a limiter, and how an answer tells of it. Server threads. */
import type { ApiReply } from '../contract/route.ts';

/** One take's outcome. */
export interface RateOutcome {
  allowed: boolean;
  /** Requests left at once. */
  remaining: number;
  /** Seconds until all of the burst is there again. */
  reset_s: number;
}

export interface RateLimiter {
  /** Takes one request out of the key's bucket. Answers at once but for a key that this thread sees first. */
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
