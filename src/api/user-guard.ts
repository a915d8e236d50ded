/**
 * The checks that every request on a dashboard route passes before its handler, in the order of the decisions:
 * credential 401 → rate 429 → JSON syntax 400 → schema 422 → access 403 → the work. Front threads.
 */
import type { UserIdentity } from '../auth/principal.ts';
import type { ApiReply, ApiRequest, ApiRoute } from '../contract/route.ts';
import type { BoundUserEndpoint } from '../contract/user-handler.ts';
import { SchemaViolation } from '../contract/violation.ts';
import type { User } from '../domain/account.ts';
import { CatalogueError, toCatalogueError } from '../errors.ts';
import { checkInput, readInput, ViolationList } from '../http/validation.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import { createOrganization } from '../storage/accounts/organizations.ts';
import { createUser, findUserId, getUser, putUser } from '../storage/accounts/users.ts';
import type { Tables } from '../storage/tables.ts';
import { renderError } from './dispatch.ts';
import { type Checks, identify, toApiReply, withHeaders } from './pipeline.ts';
import type { UserEpochs } from './user-epochs.ts';

export interface UserGuard {
  checks: Checks;
  main: Tables;
  /** Told of each change a user makes. */
  epochs: UserEpochs;
  clock?: Clock;
}

/** Puts the checks before a handler. */
export function guardUser({ endpoint, handler }: BoundUserEndpoint, guard: UserGuard): ApiRoute {
  const { checks, main, epochs, clock = systemClock } = guard;
  const handle = async (request: ApiRequest): Promise<ApiReply> => {
    const principal = await identify(request, checks);
    const outcome = await checks.limiter.take(principal.id);
    const rateHeaders = checks.rate_headers.describe(outcome);
    if (!outcome.allowed) return withHeaders(renderError(new CatalogueError('rate_limited')), rateHeaders);
    try {
      const found = new ViolationList();
      const checked = checkInput(endpoint, readInput(endpoint, request, []), found);
      found.throwAny();
      if (principal.type !== 'user')
        throw new CatalogueError('forbidden', 'API keys are for /v1; sign in to use this route');
      const now_ms = clock.wallMs();
      const user = await signIn(main, principal.identity, now_ms);
      const { email_verified } = principal.identity;
      try {
        const { params, query, body } = checked as { params: never; query: never; body: never };
        const reply = await handler({ user, email_verified, now_ms, request, params, query, body });
        return toApiReply(reply, rateHeaders);
      } finally {
        if (endpoint.method !== 'GET') epochs.bump(user.id);
      }
    } catch (thrown) {
      const error = thrown instanceof SchemaViolation ? thrown : toCatalogueError(thrown);
      // A failure of ours is reported and rendered further out.
      if (error instanceof CatalogueError && error.code === 'internal') throw error;
      return withHeaders(renderError(error), rateHeaders);
    }
  };
  return { endpoint, handle };
}

/**
 * The user of an identity. The first time makes the record and a personal organization that the user owns; later ones
 * take over an address that has changed at the provider.
 */
async function signIn(main: Tables, identity: UserIdentity, nowMs: number): Promise<User> {
  const { issuer, subject, email, name } = identity;
  const id = findUserId(main, issuer, subject);
  const known = id === undefined ? undefined : getUser(main, id);
  if (known !== undefined && (email === null || email === known.email)) return known;
  return main.transact((tx) => {
    const presentId = findUserId(tx, issuer, subject);
    const present = presentId === undefined ? undefined : getUser(tx, presentId);
    if (present !== undefined) {
      const updated = { ...present, email: email ?? present.email };
      putUser(tx, updated);
      return updated;
    }
    const user = createUser(tx, { issuer, subject, email, name }, nowMs);
    createOrganization(tx, { name: personalName(user), created_by: user.id }, nowMs);
    return user;
  });
}

function personalName({ display_name, email }: User): string {
  const name = display_name ?? (email === '' ? 'Personal' : email.slice(0, email.indexOf('@')));
  return [...name].slice(0, 100).join('') || 'Personal';
}
