/** The checks of one server thread, made from the configuration. Server threads. */
import { divideLimit, SharedRateLimiter } from '../../actors/rate-bucket/client.ts';
import { ApiKeys } from '../auth/api-keys.ts';
import { Authenticator, type CredentialKind } from '../auth/authenticator.ts';
import { StoredKeys } from '../auth/key-store.ts';
import type { KeyUses } from '../auth/key-uses.ts';
import type { MembershipReader } from '../auth/membership.ts';
import { Revocations } from '../auth/revocations.ts';
import { StaticKeys } from '../auth/static-keys.ts';
import { StreamTickets } from '../auth/stream-tickets.ts';
import { UserTokens } from '../auth/user-tokens.ts';
import type { Config } from '../config.ts';
import type { Asker } from '../runtime/actor-client.ts';
import { systemClock } from '../std/clock.ts';
import type { Stores } from '../storage/ports/stores.ts';
import type { StoreSeat } from '../storage/shared/seat.ts';
import { DeletedScopes } from './deleted-scopes.ts';
import { FailedSignIns } from './failed-sign-ins.ts';
import { tableMemberships } from './memberships.ts';
import type { Checks } from './pipeline.ts';
import { RateHeaders, type RateLimiter, type RateOutcome } from './rate-limiter.ts';

/** Memory that all server threads of the process share. */
export interface SharedMemory {
  /** Rate buckets (actors/rate-bucket/table.ts). */
  rate_table: SharedArrayBuffer;
  /**
   * This box's share of each key's limit (actors/rate-bucket/shares.ts); null: this box shares no
   * database.
   */
  rate_shares: SharedArrayBuffer | null;
  /** Buckets of addresses (failed-sign-ins.ts). */
  failed_sign_ins: SharedArrayBuffer;
  /** Shows when a credential was revoked (src/auth/revocations.ts). */
  revocations: SharedArrayBuffer;
  /** Shows when a user changed something (user-epochs.ts). */
  user_epochs: SharedArrayBuffer;
  /** The key of tickets (src/auth/stream-tickets.ts). */
  stream_tickets: SharedArrayBuffer;
  /** Locks for the payment processor's events (billing.ts). */
  event_locks: SharedArrayBuffer;
  /** Turns of the threads that write steps to the database (src/storage/lmdb/write-turn.ts). */
  write_turn: SharedArrayBuffer;
  /**
   * The store thread of a box that shares its main database (src/storage/shared); null: this box
   * shares no database.
   */
  seat: StoreSeat | null;
  /** The key by which the process finds its pattern indexes (src/search/index-catalog.ts). */
  pattern_catalog: string;
}

interface CheckParts {
  config: Config;
  asker: Asker;
  stores: Stores;
  shared: SharedMemory;
  memberships?: MembershipReader;
  /** Counts requests by key; absent: they are not counted. */
  key_uses?: KeyUses;
  /** Returns the number of boxes that share the limits; absent: there is only this box. */
  countBoxes?: () => number;
}

export function createChecks({
  config,
  asker,
  stores,
  shared,
  memberships,
  key_uses,
  countBoxes = () => 1,
}: CheckParts): Checks {
  const { rate_limit_per_sec, rate_limit_burst, auth_fail_rate_per_sec } = config.api;
  const limit = divideLimit({ rate_per_s: rate_limit_per_sec, burst: rate_limit_burst }, countBoxes);
  const revocations = new Revocations(shared.revocations);
  const checks: Checks = {
    authenticator: new Authenticator(credentialKinds(config, stores, revocations, key_uses ?? null)),
    limiter: limiterOf(new SharedRateLimiter(asker, shared.rate_table, limit, shared.rate_shares)),
    rate_headers: new RateHeaders(),
    memberships: memberships ?? tableMemberships(stores.accounts),
    tickets: new StreamTickets(shared.stream_tickets),
    deleted: new DeletedScopes(stores.accounts, revocations),
  };
  if (auth_fail_rate_per_sec > 0)
    checks.failed_sign_ins = new FailedSignIns(shared.failed_sign_ins, auth_fail_rate_per_sec, countBoxes);
  return checks;
}

/**
 * Makes the kinds of credentials that requests may have. Static keys are always accepted. AUTH_DB_URL adds customers'
 * keys, and, if the configuration says how users' tokens are signed, these tokens.
 */
function credentialKinds(
  { auth, engines }: Config,
  { accounts }: Stores,
  revocations: Revocations,
  uses: KeyUses | null,
) {
  const kinds: CredentialKind[] = [new StaticKeys(auth.static_keys)];
  if (engines.accounts === null) return kinds;
  kinds.push(new ApiKeys(new StoredKeys(accounts), revocations, systemClock, uses));
  const { jwks_url, jwt_secret, jwt_issuer: issuer, jwt_audience: audience } = auth;
  if (jwks_url !== null) kinds.push(new UserTokens({ trust: { jwks_url }, issuer, audience }, revocations));
  else if (jwt_secret !== null) {
    kinds.push(new UserTokens({ trust: { secret: jwt_secret }, issuer, audience }, revocations));
  }
  return kinds;
}

type Taken = Awaited<ReturnType<SharedRateLimiter['take']>>;

function limiterOf(buckets: SharedRateLimiter): RateLimiter {
  return {
    take: (key) => {
      const taken = buckets.take(key);
      return taken instanceof Promise ? taken.then(toOutcome) : toOutcome(taken);
    },
  };
}

function toOutcome({ allowed, remaining, full_after_ms, limit }: Taken): RateOutcome {
  return { allowed, remaining, reset_s: Math.ceil(full_after_ms / 1000), limit };
}
