/**
 * Handlers of declared routes: functions from the checked request to an answer. The table of handlers has the
 * keys of the table of endpoints, so a missing handler does not compile. Types; server threads.
 */
import type { z } from 'zod';
import type { Tenant } from '../domain/tenant.ts';
import type { CatalogueError } from '../errors.ts';
import type { Endpoint } from './endpoint.ts';
import type { ApiRequest, EventStream } from './route.ts';

export type { EventSink, EventStream } from './route.ts';

/** The output of a schema, or an empty object if the endpoint declares no schema. */
type OutputOf<Schema> = Schema extends z.ZodType ? z.output<Schema> : Record<never, never>;

/** A request that has passed every check before the work. */
export interface Call<E extends Endpoint> {
  tenant: Tenant;
  params: OutputOf<E['params']>;
  query: OutputOf<E['query']>;
  body: OutputOf<E['body']>;
  /** The unchanged request: headers, raw path. */
  request: ApiRequest;
}

export interface HandlerReply {
  /** Default 200. */
  status?: number;
  /** Sent as JSON. */
  body?: unknown;
  /** JSON that is sent unchanged, for an answer that must be identical byte for byte. */
  json?: string;
  /** Bytes that are sent unchanged, in another form than JSON of this API. */
  bytes?: { media_type: string; bytes: Uint8Array };
  headers?: readonly (readonly [name: string, value: string])[];
  /** Server-sent events instead of a body. */
  stream?: EventStream;
  /** A failure that the answer reports in its own form. The failure is logged like an error that ends a request. */
  failure?: CatalogueError;
}

/**
 * Handles a call of an endpoint.
 * @throws CatalogueError for mistakes of the caller and for temporary failures
 */
export type Handler<E extends Endpoint> = (call: Call<E>) => HandlerReply | Promise<HandlerReply>;

/** A handler for each endpoint of a table. */
export type HandlersOf<Table extends Readonly<Record<string, Endpoint>>> = {
  readonly [Name in keyof Table]: Handler<Table[Name]>;
};

/** An endpoint with its handler. */
export interface BoundEndpoint {
  endpoint: Endpoint;
  handler: Handler<Endpoint>;
}

/** Combines a table with its handlers, one entry per endpoint. */
export function bind<const Table extends Readonly<Record<string, Endpoint>>>(
  table: Table,
  handlers: HandlersOf<Table>,
): BoundEndpoint[] {
  return Object.keys(table).map((name) => ({
    endpoint: table[name]!,
    // Each handler gets only calls of its endpoint.
    handler: handlers[name] as unknown as Handler<Endpoint>,
  }));
}
