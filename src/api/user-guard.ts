/**
 * The checks that every request on a dashboard route passes before its handler, in the order of document 4:
 * credential 401 → rate 429 → JSON syntax 400 → schema 422 → access 403 → the work. Server threads.
 */
import type { UserIdentity } from '../auth/principal.ts';
import { cutCharacters } from '../contract/fields.ts';
import { ORG_NAME_CHARACTERS } from '../contract/limits.ts';
import type { ApiReply, ApiRequest, ApiRoute } from '../contract/route.ts';
import type { BoundUserEndpoint } from '../contract/user-handler.ts';
import { SchemaViolation } from '../contract/violation.ts';
import type { User } from '../domain/account.ts';
import { CatalogueError, toCatalogueError } from '../errors.ts';
import { UnknownFields } from '../http/unknown-fields.ts';
import { checkInput, readInput, ViolationList } from '../http/validation.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import { auditActor } from './access.ts';
import { FailedCall, renderError } from './dispatch.ts';
import { type Checks, identify, toApiReply, warnOf, withHeaders } from './pipeline.ts';
import type { UserEpochs } from './user-epochs.ts';

interface UserGuard {
  checks: Checks;
  accounts: Accounts;
  /** Receives the user of every request that may have changed something, even if the request failed. */
  epochs: UserEpochs;
  clock?: Clock;
}

/** Puts the checks before a handler. */
export function guardUser({ endpoint, handler }: BoundUserEndpoint, guard: UserGuard): ApiRoute {
  const { checks, accounts, epochs, clock = systemClock } = guard;
  const unknownFields = new UnknownFields(endpoint, []);
  const handle = async (request: ApiRequest): Promise<ApiReply> => {
    const principal = await identify(request, checks);
    const outcome = await checks.limiter.take(principal.id);
    let rateHeaders = checks.rate_headers.describe(outcome);
    if (!outcome.allowed) return withHeaders(renderError(new CatalogueError('rate_limited')), rateHeaders);
    try {
      const found = new ViolationList();
      const input = readInput(endpoint, request, []);
      const checked = checkInput(endpoint, input, found);
      found.throwAny();
      rateHeaders = warnOf(unknownFields.describe(request.query, input.body), rateHeaders);
      if (principal.type !== 'user')
        throw new CatalogueError('forbidden', 'API keys are for /v1; sign in to use this route');
      const now_ms = clock.wallMs();
      const { identity } = principal;
      const user = await signIn(accounts, identity, { address: request.address, nowMs: now_ms });
      // A token without an address may still say that the address is not verified.
      const email_verified = user.email_verified && identity.email_verified;
      try {
        const { params, query, body } = checked as { params: never; query: never; body: never };
        const reply = await handler({ user, identity, email_verified, now_ms, request, params, query, body });
        return toApiReply(reply, rateHeaders);
      } finally {
        if (endpoint.method !== 'GET') epochs.bump(user.id);
      }
    } catch (thrown) {
      const error = thrown instanceof SchemaViolation ? thrown : toCatalogueError(thrown);
      // Internal failures are reported and rendered by the caller.
      if (error instanceof CatalogueError && error.status >= 500) throw new FailedCall(error, rateHeaders);
      return withHeaders(renderError(error), rateHeaders);
    }
  };
  return { endpoint, handle };
}

/**
 * Finds the user of an identity. The first request creates the record and a personal organization that the user owns;
 * later requests adopt an address that has changed at the provider. Rejects with a CatalogueError `unauthenticated` if
 * the first request's token has no address.
 */
async function signIn(
  accounts: Accounts,
  identity: UserIdentity,
  { address, nowMs }: { address: string; nowMs: number },
): Promise<User> {
  const { email, email_verified } = identity;
  const id = accounts.users.findId(identity, nowMs);
  const known = id === undefined ? undefined : accounts.users.find(id);
  if (known !== undefined && !saysNews(known, identity)) return known;
  // A user without an address could not be recognized or invited. Later tokens of a known user need not repeat it.
  if (known === undefined && email === null)
    throw new CatalogueError('unauthenticated', 'The first sign-in needs a token with an e-mail address');
  return accounts.transact((tx) => {
    const presentId = tx.users.findId(identity, nowMs);
    const present = presentId === undefined ? undefined : tx.users.find(presentId);
    if (present !== undefined) {
      if (!saysNews(present, identity)) return present;
      const updated = { ...present, email: email!, email_verified };
      tx.users.put(updated);
      return updated;
    }
    const user = tx.users.create(identity, nowMs);
    const organization = tx.organizations.create({ name: personalName(user), created_by: user.id }, nowMs);
    tx.audit.add(auditActor(user, address), nowMs, {
      org_id: organization.id,
      action: 'organization.create',
      target: organization.id,
      after: { name: organization.name },
    });
    return user;
  });
}

/**
 * Whether the token has an address that differs from the stored one. A token without an address
 * changes nothing.
 */
function saysNews(user: User, { email, email_verified }: UserIdentity): boolean {
  return email !== null && (email !== user.email || email_verified !== user.email_verified);
}

function personalName({ display_name, email }: User): string {
  const name = display_name ?? email.split('@')[0]!;
  return cutCharacters(name, ORG_NAME_CHARACTERS) || 'Personal';
}
