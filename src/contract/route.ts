/**
 * What passes between the HTTP server and a handler of the API: plain data both ways, so that a handler can be called
 * without a server. Types and small rules; front threads.
 */

import type { Endpoint } from './endpoint.ts';

/** A request whose body has arrived whole. */
export interface ApiRequest {
  /** Upper case. */
  method: string;
  /** Raw, without the query. */
  path: string;
  /** Raw, without `?`; '' for none. */
  query: string;
  /** Names in lower case; a repeated header's values joined by `, ` (RFC 9110, 5.3). */
  headers: ReadonlyMap<string, string>;
  /** Decoded `{name}`s of the route's path. */
  params: Readonly<Record<string, string>>;
  body: Uint8Array;
}

export interface ApiReply {
  status: number;
  /** `content-type` among them where there is a body; the server adds the length. */
  headers: readonly (readonly [name: string, value: string])[];
  body: string | Uint8Array;
}

/** One entry of the router's table. */
export interface ApiRoute {
  endpoint: Endpoint;
  handle(request: ApiRequest): ApiReply | Promise<ApiReply>;
}

/** A JSON answer. */
export function jsonReply(status: number, body: unknown, headers: ApiReply['headers'] = []): ApiReply {
  return { status, headers: [['content-type', 'application/json'], ...headers], body: JSON.stringify(body) };
}
