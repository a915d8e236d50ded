/**
 * What a route of the API is, as data: one value that is served, documented in `/openapi.json` and callable by a
 * client. Pure; any thread.
 */

import { z } from 'zod';

/**
 * `open`: no credential is looked at. `bearer`: an API key or a JWT in `Authorization`, whose tenant the request is of.
 * `user`: a signed-in user's JWT; a key is refused with 403. `operator`: who runs the service; for everybody else, and
 * by any other method, the path is not there (404).
 */
export type EndpointAuth = 'open' | 'bearer' | 'user' | 'operator';

export interface EndpointReply {
  description: string;
  /** Absent: no body, or one that is not JSON (see `media_type`). */
  schema?: z.ZodType;
  /** Default `application/json`. */
  media_type?: string;
  /** Of a stream: the data of its events by their names. */
  events?: Readonly<Record<string, z.ZodType>>;
  /** Beyond those that every answer has. */
  headers?: readonly HeaderName[];
}

/** Headers of answers that mean something to a caller. */
export type HeaderName =
  | 'ratelimit'
  | 'ratelimit-policy'
  | 'retry-after'
  | 'x-request-id'
  | 'x-svc-retrieval'
  | 'x-svc-warning'
  | 'x-total-count';

/** A body that is not this API's JSON: the handler reads it, and its refusals are its own. */
export interface RawBody {
  media_types: readonly string[];
  words: string;
}

export interface Endpoint {
  /** Unique; names the operation in the interface description. */
  id: string;
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** `{name}` stands for one segment. Written without a trailing slash; both forms are served. */
  path: string;
  /** The path as the interface description writes it, where document 1 has a trailing slash. */
  described_path?: string;
  auth: EndpointAuth;
  /**
   * Whether it changes something: a viewer's JWT may not call it then. Default: everything but GET. `false` for a POST
   * that only reads (a search whose query is a body).
   */
  writes?: boolean;
  summary: string;
  /** Groups operations in the interface description. */
  tag: string;
  /**
   * Schemas of what the path's `{name}`s, the query and the body may hold (fields.ts). `org_id` and `project_id`, by
   * which a static key or a JWT names its tenant, are checked and described for every `bearer` endpoint: they need
   * not stand in the schemas, but a handler that reads `project_id` of its body declares it there.
   */
  params?: z.ZodObject;
  query?: z.ZodObject;
  body?: z.ZodType;
  /** Instead of `body`; a static key names its tenant in the query then. */
  raw_body?: RawBody;
  /** By status. */
  replies: Record<number, EndpointReply>;
  /** Other paths that answer alike and are not described; `/v1/x` has `/x` without being told. */
  aliases?: readonly string[];
  /**
   * Answers whatever host name it is asked under, with or without a credential: it tells nothing that matters, or looks at
   * a proof of its own. All others ask for a host name of the service's where no credential comes along.
   */
  any_host?: boolean;
  /** A `ticket` in the query may stand in for the credential: for browsers that cannot send the header. */
  takes_ticket?: boolean;
  /** Refuses what a page of an origin sends that `CORS_ALLOWED_ORIGINS` does not list, as other protocols ask of their servers. */
  listed_origins?: boolean;
  /** Served but not described. */
  hidden?: boolean;
}

/**
 * Declares a route, checking at start-up what the types cannot say.
 * @throws Error when the path does not begin with `/`, ends with one, or names a parameter without a schema
 */
export function endpoint<const E extends Endpoint>(declared: E): E {
  const { path } = declared;
  if (path !== '/' && !/^\/.*[^/]$/.test(path))
    throw new Error(`${declared.id}: the path ${path} must begin but not end with /`);
  if (declared.described_path !== undefined && declared.described_path !== `${path}/`)
    throw new Error(`${declared.id}: described as ${declared.described_path}, served as ${path}`);
  const named = pathParameters(path).sort().join();
  const described = Object.keys(declared.params?.shape ?? {})
    .sort()
    .join();
  if (named !== described)
    throw new Error(`${declared.id}: path names (${named}), params describe (${described})`);
  return declared;
}

/** Every path that leads to an endpoint: its own, its aliases, and without its version (document 2, Versioning). */
export function pathsOf({ path, aliases = [] }: Endpoint): string[] {
  const unversioned = path.startsWith('/v1/') ? [path.slice('/v1'.length)] : [];
  return [...new Set([path, ...aliases, ...unversioned])];
}

/** The names inside `{}` of a declared path, in order. */
export function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
}

/** Body of every error of the API (documents 1 and 2). */
export const errorBody = z.object({ detail: z.string() }).meta({ id: 'Error' });

/** A refusal that the checks before the handler do not imply. */
export function refusal(description: string): EndpointReply {
  return { description, schema: errorBody };
}
