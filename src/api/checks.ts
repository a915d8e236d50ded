/** The checks of one front thread, made from the configuration. Front threads. */
import { OwnBuckets, SharedRateLimiter } from '../../actors/rate-bucket/client.ts';
import { Authenticator } from '../auth/authenticator.ts';
import { type MembershipReader, NO_MEMBERSHIPS } from '../auth/membership.ts';
import { StaticKeys } from '../auth/static-keys.ts';
import type { Config } from '../config.ts';
import type { Asker } from '../runtime/front.ts';
import type { Checks } from './pipeline.ts';
import { RateHeaders, type RateLimiter, type RateOutcome } from './rate-limiter.ts';

export interface CheckParts {
  config: Config;
  asker: Asker;
  /** Shared by all front threads. */
  rate_table: SharedArrayBuffer;
  memberships?: MembershipReader;
}

export function createChecks({ config, asker, rate_table, memberships }: CheckParts): Checks {
  const { rate_limit_per_sec, rate_limit_burst, auth_fail_rate_per_sec } = config.api;
  const limit = { rate_per_s: rate_limit_per_sec, burst: rate_limit_burst };
  const checks: Checks = {
    authenticator: new Authenticator([new StaticKeys(config.auth.static_keys)]),
    limiter: limiterOf(new SharedRateLimiter(asker, rate_table, limit)),
    rate_headers: new RateHeaders(rate_limit_per_sec, rate_limit_burst),
    memberships: memberships ?? NO_MEMBERSHIPS,
  };
  if (auth_fail_rate_per_sec !== null) {
    const failures = { rate_per_s: auth_fail_rate_per_sec, burst: auth_fail_rate_per_sec };
    checks.failure_limiter = limiterOf(new OwnBuckets(failures));
  }
  return checks;
}

interface Taken {
  allowed: boolean;
  remaining: number;
  full_after_ms: number;
}

function limiterOf(buckets: { take(key: string): Taken | Promise<Taken> }): RateLimiter {
  return {
    take: (key) => {
      const taken = buckets.take(key);
      return taken instanceof Promise ? taken.then(toOutcome) : toOutcome(taken);
    },
  };
}

function toOutcome({ allowed, remaining, full_after_ms }: Taken): RateOutcome {
  return { allowed, remaining, reset_s: Math.ceil(full_after_ms / 1000) };
}
