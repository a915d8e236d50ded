/**
 * Requests and answers between the HTTP server and the API's handlers, as plain data, so that handlers can be
 * called without a server. Types and small rules; server threads.
 */

import type { CatalogueError } from '../errors.ts';
import type { Endpoint } from './endpoint.ts';

/** Names in lower case; a repeated header's values joined by `, ` (RFC 9110, 5.3). */
export type RequestHeaders = Pick<ReadonlyMap<string, string>, 'get' | 'has'>;

/** A request whose body has arrived whole. */
export interface ApiRequest {
  /** Upper case. */
  method: string;
  /** Raw, without the query. */
  path: string;
  /** Raw, without `?`; '' for none. */
  query: string;
  headers: RequestHeaders;
  /** The decoded path parameters, by name. */
  params: Readonly<Record<string, string>>;
  body: Uint8Array;
  /** IP address of the other end of the connection; '' if there is no connection, as in a test. */
  address: string;
}

export interface ApiReply {
  status: number;
  /** Include `content-type` if there is a body; the server adds the length. */
  headers: readonly (readonly [name: string, value: string])[];
  body: string | Uint8Array;
  /** Server-sent events that follow the head; then `body` is ''. */
  stream?: EventStream;
  /** The failure that the answer reports in its own form; for the log. */
  failure?: CatalogueError;
}

/** An endless answer of media type `text/event-stream`. */
export interface EventStream {
  /**
   * Called once the head is sent.
   * @returns a function, which is called once when the reader has disconnected or was dropped
   */
  open(sink: EventSink): () => void;
}

export interface EventSink {
  /** Sends bytes that are whole events or comments. @returns false if the reader has disconnected or was dropped */
  write(bytes: Uint8Array): boolean;
  /** Bytes that were written to this sink and that the network has not yet accepted. */
  readonly buffered_bytes: number;
  /**
   * Calls the listener when the network accepts bytes again. If it accepts them already, the call comes at the end of
   * this turn.
   */
  whenDrained(listener: () => void): void;
  /** Ends the answer. */
  close(): void;
  /** Cuts the connection, so that the reader does not mistake the received part for the whole. */
  abort(): void;
}

/** One entry of the router's table. */
export interface ApiRoute {
  endpoint: Endpoint;
  handle(request: ApiRequest): ApiReply | Promise<ApiReply>;
}

/** Makes a JSON answer. */
export function jsonReply(status: number, body: unknown, headers: ApiReply['headers'] = []): ApiReply {
  return { status, headers: [['content-type', 'application/json'], ...headers], body: JSON.stringify(body) };
}
