/**
 * The checks that every request on a `bearer` endpoint passes before its handler, in the order of document 4:
 * (body size 413) → credential 401 → rate 429 → JSON syntax 400 → schema 422 → access 403/404 → the work. Server threads.
 */
import { z } from 'zod';
import type { Authenticator } from '../auth/authenticator.ts';
import type { MembershipReader } from '../auth/membership.ts';
import { authorizationOf } from '../auth/page-session.ts';
import type { Principal } from '../auth/principal.ts';
import type { StreamTickets } from '../auth/stream-tickets.ts';
import type { Endpoint } from '../contract/endpoint.ts';
import { identifier } from '../contract/fields.ts';
import type { BoundEndpoint, HandlerReply } from '../contract/handler.ts';
import { type ApiReply, type ApiRequest, type ApiRoute, jsonReply } from '../contract/route.ts';
import { jwtQuery, tenantFields, tenantQuery } from '../contract/tenant-fields.ts';
import { SchemaViolation } from '../contract/violation.ts';
import { isAtLeast } from '../domain/role.ts';
import { DEFAULT_ORG, type Tenant } from '../domain/tenant.ts';
import { CatalogueError, toCatalogueError } from '../errors.ts';
import { UnknownFields } from '../http/unknown-fields.ts';
import {
  check,
  checkInput,
  type Place,
  type RawInput,
  readInput,
  ViolationList,
} from '../http/validation.ts';
import { ID_CHARACTERS } from '../limits.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { FailedCall, renderError } from './dispatch.ts';
import type { RateHeaders, RateLimiter, RateOutcome } from './rate-limiter.ts';
import { redeemTicket } from './ticketed-request.ts';

/** The services that the checks use. */
export interface Checks {
  authenticator: Authenticator;
  limiter: RateLimiter;
  rate_headers: RateHeaders;
  memberships: MembershipReader;
  /** Counts failed authentications by address, and refuses too many; absent: no limit. */
  failed_sign_ins?: { take(address: string): boolean };
  /** Tickets, which replace the credential on endpoints that accept them; absent: no tickets. */
  tickets?: StreamTickets;
  /** Deleted organizations and projects; absent: nothing is ever deleted. */
  deleted?: DeletedView;
}

const TENANT_NAMES = Object.keys(tenantQuery.shape);

/**
 * Puts the checks before a handler.
 * @throws Error for an endpoint of another kind than `bearer`
 */
export function guard(bound: BoundEndpoint, checks: Checks): ApiRoute {
  const { endpoint, handler } = bound;
  if (endpoint.auth !== 'bearer') throw new Error(`${endpoint.id} is ${endpoint.auth}, not bearer`);
  const unknownFields = new UnknownFields(endpoint, TENANT_NAMES);
  const work = (request: ApiRequest, principal: Principal, outcome: RateOutcome): Settled<ApiReply> => {
    let rateHeaders = checks.rate_headers.describe(outcome);
    if (!outcome.allowed) return withHeaders(renderError(new CatalogueError('rate_limited')), rateHeaders);
    try {
      const input = readInput(endpoint, request, TENANT_NAMES);
      const { named, checked } = checkAll(endpoint, input, principal);
      const { params, query, body } = checked;
      rateHeaders = warnOf(unknownFields.describe(request.query, input.body), rateHeaders);
      checkDeleted(endpoint, principal, named, input, checks.deleted);
      const resolved = resolveTenant(endpoint, principal, named, checks.memberships);
      const reply =
        resolved instanceof Promise
          ? resolved.then((tenant) => handler({ tenant, params, query, body, request }))
          : handler({ tenant: resolved, params, query, body, request });
      if (!(reply instanceof Promise)) return toApiReply(reply, rateHeaders);
      return reply.then(
        (done) => toApiReply(done, rateHeaders),
        (thrown) => renderFailure(thrown, rateHeaders),
      );
    } catch (thrown) {
      return renderFailure(thrown, rateHeaders);
    }
  };
  // Most principals, rate checks and tenants are available immediately. Awaiting these values would
  // delay each request by ticks of the microtask queue.
  const take = (request: ApiRequest, principal: Principal): Settled<ApiReply> => {
    const outcome = checks.limiter.take(principal.id);
    if (outcome instanceof Promise) return outcome.then((taken) => work(request, principal, taken));
    return work(request, principal, outcome);
  };
  const handle = (request: ApiRequest): Settled<ApiReply> => {
    const principal = identify(request, checks);
    if (principal instanceof Promise) return principal.then((known) => take(request, known));
    return take(request, principal);
  };
  if (endpoint.takes_ticket !== true) return { endpoint, handle };
  const redeem = (request: ApiRequest): Settled<ApiReply> => {
    const redeemed = checks.tickets === undefined ? null : redeemTicket(request, checks.tickets);
    if (redeemed === null) return handle(request);
    const { address } = request;
    return redeemed.then(handle, (thrown: unknown) => {
      throw judgeFailure(thrown, address, checks);
    });
  };
  return { endpoint, handle: redeem };
}

/**
 * Adds a warning to the headers of an answer.
 * @param warning null: no warning; the headers are returned unchanged
 */
export function warnOf(warning: string | null, headers: ApiReply['headers']): ApiReply['headers'] {
  return warning === null ? headers : [...headers, ['x-svc-warning', warning]];
}

/** A value that is usually available immediately. */
type Settled<Value> = Value | Promise<Value>;

/**
 * Makes the answer to a request that failed because of the sender (4xx).
 * @throws FailedCall for any other failure, which the caller reports and renders
 */
function renderFailure(thrown: unknown, rateHeaders: ApiReply['headers']): ApiReply {
  const error = thrown instanceof SchemaViolation ? thrown : toCatalogueError(thrown);
  if (error instanceof CatalogueError && error.status >= 500) throw new FailedCall(error, rateHeaders);
  return withHeaders(renderError(error), rateHeaders);
}

/**
 * Identifies the sender of the request. A sender that failed too often gets `rate_limited` instead of the
 * actual error; a valid credential is not counted.
 * @throws CatalogueError (or rejects) `unauthenticated` for an invalid credential, or `rate_limited` where failures are
 *   limited; other errors of the authenticator while the credential cannot be checked
 */
export function identify(
  request: Pick<ApiRequest, 'method' | 'headers' | 'address'>,
  checks: Pick<Checks, 'authenticator' | 'failed_sign_ins'>,
): Principal | Promise<Principal> {
  try {
    const principal = checks.authenticator.authenticate(authorizationOf(request));
    if (!(principal instanceof Promise)) return principal;
    // Read the address before waiting, because it is lost when the client disconnects.
    const { address } = request;
    return principal.catch((thrown: unknown) => {
      throw judgeFailure(thrown, address, checks);
    });
  } catch (thrown) {
    throw judgeFailure(thrown, request.address, checks);
  }
}

/**
 * Counts a failed authentication for its address. Other errors are not counted.
 * @returns `rate_limited` for an address that failed too often, otherwise the thrown error
 */
function judgeFailure(
  thrown: unknown,
  address: string,
  { failed_sign_ins }: Pick<Checks, 'failed_sign_ins'>,
): unknown {
  const isFailure = thrown instanceof CatalogueError && thrown.code === 'unauthenticated';
  if (!isFailure || failed_sign_ins === undefined || failed_sign_ins.take(address)) return thrown;
  return new CatalogueError(
    'rate_limited',
    'Too many failed authentications from this address; try again later',
  );
}

interface NamedTenant {
  org_id?: string | null | undefined;
  project_id?: string | null | undefined;
}

/**
 * Checks the endpoint's own fields and the names of the tenant.
 * @throws SchemaViolation with all errors, the endpoint's own fields first
 */
function checkAll(endpoint: Endpoint, raw: RawInput, principal: Principal) {
  const found = new ViolationList();
  const checked = checkInput(endpoint, raw, found);
  const named = principal.type === 'key' ? {} : checkTenant(endpoint, raw, principal, found);
  found.throwAny();
  return { named, checked: checked as { params: never; query: never; body: never } };
}

/**
 * Reads the tenant that a request names. With a static key, the tenant is in the body, or in the query of an endpoint
 * without a body. With a JWT, it must be in the query. On an endpoint with a body, the query of a static key is ignored,
 * but an `org_id` in it must be valid. Not called for a customer's key, which itself determines the tenant.
 */
function checkTenant(
  endpoint: Endpoint,
  raw: RawInput,
  principal: Principal,
  found: ViolationList,
): NamedTenant {
  const place: Place = principal.type === 'static' && endpoint.body !== undefined ? 'body' : 'query';
  const source = raw[place];
  if (place === 'body' && raw.query.org_id !== undefined && !('org_id' in shapeOf(endpoint.query)))
    check(jwtQuery, raw.query, 'query', found);
  if (place === 'body' && (typeof source !== 'object' || source === null || Array.isArray(source))) return {};
  const schema = principal.type === 'user' ? userTenantQuery : place === 'body' ? tenantFields : tenantQuery;
  // If there are violations, tenant names that the endpoint's own schema declares are not checked again.
  if (found.count > 0) {
    const declared = shapeOf(place === 'body' ? endpoint.body : endpoint.query);
    if (TENANT_NAMES.some((name) => name in declared)) return {};
  }
  return (check(schema, source, place, found) ?? {}) as NamedTenant;
}

const userTenantQuery = tenantQuery.extend({ org_id: identifier() });

function shapeOf(schema: z.ZodType | undefined): object {
  return schema instanceof z.ZodObject ? schema.shape : {};
}

/**
 * Refuses a request with a static key for a deleted organization, and every writing request whose body or query names a
 * deleted project. Handlers answer reads of a deleted project as if it had never existed.
 * @throws CatalogueError `not_found`
 */
function checkDeleted(
  endpoint: Endpoint,
  principal: Principal,
  named: NamedTenant,
  { body, query }: RawInput,
  deleted: DeletedView | undefined,
): void {
  if (deleted === undefined) return;
  const org_id = principal.type === 'key' ? principal.org_id : named.org_id;
  if (org_id == null) return;
  if (principal.type === 'static') deleted.checkOrganization(org_id);
  if (!(endpoint.writes ?? endpoint.method !== 'GET')) return;
  for (const place of [body, query]) {
    const project_id = (place as { project_id?: unknown } | null | undefined)?.project_id;
    if (typeof project_id === 'string' && canBeName(project_id)) deleted.checkProject({ org_id }, project_id);
  }
}

/**
 * Whether a project can have this name. Requests with a customer's key may contain any text, because the field is
 * ignored for them.
 */
function canBeName(text: string): boolean {
  return text.length <= 2 * ID_CHARACTERS && text.isWellFormed();
}

/**
 * Determines the tenant of a request, and who acts in it.
 * @throws CatalogueError (or rejects) as {@link findUserTenant} does
 */
function resolveTenant(
  endpoint: Endpoint,
  principal: Principal,
  named: NamedTenant,
  memberships: MembershipReader,
): Tenant | Promise<Tenant> {
  if (principal.type === 'key') {
    const { org_id, project_id, id } = principal;
    return { org_id, project_id, actor: { type: 'key', id } };
  }
  const project_id = named.project_id ?? null;
  if (principal.type === 'static') {
    const actor = { type: 'static', id: principal.id } as const;
    return { org_id: named.org_id ?? DEFAULT_ORG, project_id, actor };
  }
  return findUserTenant(endpoint, principal, named.org_id!, project_id, memberships);
}

/**
 * Determines the tenant of a user's request.
 * @throws CatalogueError `not_found` for an organization that the user does not belong to; `forbidden` for a request
 *   that writes, if the user's role allows only reading
 */
async function findUserTenant(
  endpoint: Endpoint,
  principal: Extract<Principal, { type: 'user' }>,
  org_id: string,
  project_id: string | null,
  memberships: MembershipReader,
): Promise<Tenant> {
  const membership = await memberships.roleOf(principal.identity, org_id);
  if (membership === null) throw new CatalogueError('not_found');
  const mayWrite = isAtLeast(membership.role, 'member');
  if (!mayWrite && (endpoint.writes ?? endpoint.method !== 'GET')) throw new CatalogueError('forbidden');
  return { org_id, project_id, actor: { type: 'user', id: membership.user_id } };
}

/** Converts the reply of a handler into an answer, and adds the headers of the rate limit. */
export function toApiReply(reply: HandlerReply, rateHeaders: ApiReply['headers']): ApiReply {
  const { status = 200, headers = [] } = reply;
  if (reply.failure !== undefined) {
    const { failure, ...told } = reply;
    return { ...toApiReply(told, rateHeaders), failure };
  }
  if (reply.stream !== undefined) {
    const hasType = headers.some(([name]) => name === 'content-type');
    const type = hasType ? [] : [['content-type', 'text/event-stream; charset=utf-8'] as const];
    return { status, headers: [...type, ...headers, ...rateHeaders], body: '', stream: reply.stream };
  }
  if (reply.json !== undefined) {
    const type = ['content-type', 'application/json'] as const;
    return { status, headers: [type, ...headers, ...rateHeaders], body: reply.json };
  }
  if (reply.bytes !== undefined) {
    const type = ['content-type', reply.bytes.media_type] as const;
    return { status, headers: [type, ...headers, ...rateHeaders], body: reply.bytes.bytes };
  }
  if (reply.body === undefined) return { status, headers: [...headers, ...rateHeaders], body: '' };
  return jsonReply(status, reply.body, [...headers, ...rateHeaders]);
}

export function withHeaders(reply: ApiReply, headers: ApiReply['headers']): ApiReply {
  return { ...reply, headers: [...reply.headers, ...headers] };
}
