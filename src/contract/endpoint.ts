/**
 * A route of the API as data: one value that the server serves, `/openapi.json` documents and a client can call. Pure;
 * any thread.
 */

import { z } from 'zod';
import type { Permission } from '../domain/permissions.ts';

/**
 * `open`: no credential is checked. `bearer`: an API key or a JWT in `Authorization`, which also determines
 * the tenant. `user`: a signed-in user's JWT; a key is refused with 403. `operator`: the operator of the
 * service. Other callers get 404, as if the path did not exist. A request with another method also gets 404,
 * and not 405.
 */
type EndpointAuth = 'open' | 'bearer' | 'user' | 'operator';

export interface EndpointReply {
  description: string;
  /** Absent: no body, or a body that is not JSON (see `media_type`). */
  schema?: z.ZodType;
  /** Default `application/json`. */
  media_type?: string;
  /** The schema of each event's data, by event name. Only for a stream. */
  events?: Readonly<Record<string, z.ZodType>>;
  /** Headers of this reply, in addition to the headers that every answer has. */
  headers?: readonly HeaderName[];
}

/** Response headers that matter to callers. */
export type HeaderName =
  | 'ratelimit'
  | 'ratelimit-policy'
  | 'retry-after'
  | 'x-request-id'
  | 'x-svc-not-indexed'
  | 'x-svc-retrieval'
  | 'x-svc-warning'
  | 'x-total-count';

/** A body that is not JSON of this API; the handler reads and validates it. */
export interface RawBody {
  media_types: readonly string[];
  words: string;
}

export interface Endpoint {
  /** Unique: the `operationId` in the API description. */
  id: string;
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** `{name}` matches one segment. The path is declared without a trailing slash and served with and without it. */
  path: string;
  /** The path in the interface description, if document 1 has a trailing slash. */
  described_path?: string;
  auth: EndpointAuth;
  /**
   * For a `user` endpoint: the permission that the user's role must include. `signed in`: no permission, because the
   * route concerns only the user.
   */
  permission?: Permission | 'signed in';
  /**
   * Whether the route changes data; then a viewer's JWT may not call it. Default: true for all methods but GET. `false`
   * for a POST that only reads (a search whose query is a body).
   */
  writes?: boolean;
  summary: string;
  /** Groups operations in the interface description. */
  tag: string;
  /**
   * Schemas of the path parameters, the query and the body (fields.ts). `org_id` and `project_id`, by which a static
   * key or a JWT names its tenant, are checked and described for every `bearer` endpoint. The schemas need not declare
   * them, but a handler that reads `project_id` from its body must.
   */
  params?: z.ZodObject;
  query?: z.ZodObject;
  body?: z.ZodType;
  /** Replaces `body`; a static key then names its tenant in the query. */
  raw_body?: RawBody;
  /** Replies by status. */
  replies: Record<number, EndpointReply>;
  /** Other paths with the same answer, not described; `/v1/x` always has the alias `/x`. */
  aliases?: readonly string[];
  /**
   * Accepts every host name, with or without a credential. This is safe if the answer reveals nothing sensitive, or if
   * the handler checks another proof. On all other endpoints, a request without a credential must use a host name of
   * the service.
   */
  any_host?: boolean;
  /** Some callers need no credential. Other callers need a credential, and may then use any host name. */
  checks_credential?: true;
  /** A `ticket` in the query may replace the credential, for browsers that cannot send the header. */
  takes_ticket?: boolean;
  /**
   * Refuses requests of web pages whose origin is not in `CORS_ALLOWED_ORIGINS`. The Model Context Protocol requires
   * this of servers.
   */
  listed_origins?: boolean;
  /** Served but not described. */
  hidden?: boolean;
}

/**
 * Declares a route and checks at start-up what types cannot express.
 * @throws Error when the path does not begin with `/`, or ends with `/` (except `/` itself); when `described_path` is
 *   not this path with a trailing slash; when the parameters of the path are not those of `params`; when a `user`
 *   endpoint has no permission, or another endpoint has one
 */
export function endpoint<const E extends Endpoint>(declared: E): E {
  const { path } = declared;
  if (path !== '/' && !/^\/.*[^/]$/.test(path))
    throw new Error(`${declared.id}: the path ${path} must begin but not end with /`);
  if (declared.described_path !== undefined && declared.described_path !== `${path}/`)
    throw new Error(`${declared.id}: described as ${declared.described_path}, served as ${path}`);
  if ((declared.auth === 'user') !== (declared.permission !== undefined))
    throw new Error(`${declared.id}: a permission belongs to each route of signed-in users, and to no other`);
  const named = pathParameters(path).sort().join();
  const described = Object.keys(declared.params?.shape ?? {})
    .sort()
    .join();
  if (named !== described)
    throw new Error(`${declared.id}: path names (${named}), params describe (${described})`);
  return declared;
}

/**
 * Lists the paths of an endpoint: the declared path, its aliases, and the path without its version (document
 * 2, Versioning).
 */
export function pathsOf({ path, aliases = [] }: Endpoint): string[] {
  const unversioned = path.startsWith('/v1/') ? [path.slice('/v1'.length)] : [];
  return [...new Set([path, ...aliases, ...unversioned])];
}

/** Lists the names inside `{}` of a declared path, in order. */
export function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
}

/** Body of every error of the API (documents 1 and 2). */
export const errorBody = z.object({ detail: z.string() }).meta({ id: 'Error' });

/**
 * Declares an error reply of the handler itself. The replies of the checks before the handler need no
 * declaration.
 */
export function refusal(description: string): EndpointReply {
  return { description, schema: errorBody };
}
