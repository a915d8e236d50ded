/**
 * Connections to the providers: one pool an origin, kept alive, HTTP/1.1, without limits on how long an answer may
 * think. Front threads; each front has its own pools.
 */

import type { Socket } from 'node:net';
import { buildConnector, Client, type Dispatcher } from 'undici';
import { UPSTREAM_CONNECT_MS, UPSTREAM_HEAD_BYTES, UPSTREAM_TIMEOUT_MS } from '../limits.ts';

/** One provider's address and the pool that leads there. */
export interface Upstream {
  pool: ConnectionPool;
  /** Value of Host. */
  host: string;
  /** Path of the base, put before the client's; '' for none. */
  base_path: string;
}

/** How long an unused connection is kept. Providers mostly close after more; a dead one costs a retry, not a failure. */
const KEEP_ALIVE_MS = 30_000;
/** What a socket to an upstream has been through. */
export interface SocketState {
  /** Requests whose head was written to it. */
  requests: number;
  /** It ended with an error rather than in an orderly way. */
  wasReset: boolean;
}

/** A handler that wants to know which connection its request got. */
export interface PooledHandler extends Dispatcher.DispatchHandler {
  /** Told before `onRequestStart`; its `socket` may be another one by then, when the old one died meanwhile. */
  onConnection(connection: Connection): void;
}

/** A client of one connection, which sets up a new one when the old one has gone. */
export class Connection {
  readonly client: Client;
  /** The socket's state; that of none before the first. */
  socket: SocketState = { requests: 0, wasReset: false };
  isIdle = true;
  /** Takes no more requests. */
  isRetired = false;

  constructor(origin: string, connector: buildConnector.connector) {
    this.client = new Client(origin, {
      allowH2: false,
      pipelining: 1,
      headersTimeout: UPSTREAM_TIMEOUT_MS,
      bodyTimeout: UPSTREAM_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: UPSTREAM_HEAD_BYTES,
      connect: (options, done) =>
        connector(options, (...outcome) => {
          if (outcome[0] === null) this.#begin(outcome[1]);
          done(...outcome);
        }),
    });
  }

  #begin(socket: Socket): void {
    const state = { requests: 0, wasReset: false };
    this.socket = state;
    // Before undici's own listener, which ends the answer.
    socket.on('error', () => {
      state.wasReset = true;
    });
  }
}

/**
 * As many connections to one origin as there are requests at once; the one used last is used first. undici's own pool
 * looks through all of its connections for each request, forgets those whose request it refuses, and tells nobody which
 * connection a request got. Two things need that: a retry is only safe on a connection that was used before, and an
 * answer without framing that ends in a reset is not whole, though undici takes it for that.
 */
export class ConnectionPool {
  readonly #origin: string;
  readonly #connector = buildConnector({ allowH2: false, timeout: UPSTREAM_CONNECT_MS });
  readonly #all = new Set<Connection>();
  readonly #idle: Connection[] = [];

  constructor(origin: string) {
    this.#origin = origin;
  }

  /** Sends a request. Errors of any kind come through the handler's methods. */
  dispatch(options: Dispatcher.DispatchOptions, handler: PooledHandler): void {
    const connection = this.#idle.pop() ?? this.#open();
    connection.isIdle = false;
    handler.onConnection(connection);
    connection.client.dispatch(options, handler);
    // If it refused the request, there will be no `drain`.
    this.#rest(connection);
  }

  /** Takes no more requests; those under way are finished. */
  async close(): Promise<void> {
    await Promise.all([...this.#all].map((connection) => connection.client.close()));
  }

  /** Ends every connection, busy ones too. */
  async destroy(): Promise<void> {
    await Promise.all([...this.#all].map((connection) => connection.client.destroy()));
  }

  #open(): Connection {
    const connection = new Connection(this.#origin, this.#connector);
    this.#all.add(connection);
    connection.client.on('drain', () => this.#rest(connection));
    connection.client.on('connectionError', () => this.#retire(connection));
    return connection;
  }

  /** Its request is over, or there was none. */
  #rest(connection: Connection): void {
    if (connection.isIdle || connection.isRetired || connection.client.stats.size > 0) return;
    connection.isIdle = true;
    this.#idle.push(connection);
  }

  #retire(connection: Connection): void {
    if (connection.isRetired) return;
    connection.isRetired = true;
    this.#all.delete(connection);
    const place = this.#idle.indexOf(connection);
    if (place >= 0) this.#idle.splice(place, 1);
    connection.client.close().catch(() => {
      // Only when it is destroyed already, which is what we are after.
    });
  }
}

/** Pools kept at once. Regions come from clients, so their number must be bounded; there are some 40 real ones. */
const POOLS_MAX = 64;

export class UpstreamPools {
  readonly #upstreams = new Map<string, Upstream>();

  /**
   * @param base http or https URL, perhaps with a path, without a trailing slash
   * @returns the upstream behind it, made at first use
   */
  get(base: string): Upstream {
    const known = this.#upstreams.get(base);
    if (known !== undefined) return known;
    const url = new URL(base);
    const upstream: Upstream = {
      pool: new ConnectionPool(url.origin),
      host: url.host,
      base_path: url.pathname === '/' ? '' : url.pathname,
    };
    this.#upstreams.set(base, upstream);
    if (this.#upstreams.size > POOLS_MAX) this.#evict(base);
    return upstream;
  }

  /** Ends every connection, busy ones too. */
  async close(): Promise<void> {
    await Promise.all([...this.#upstreams.values()].map((upstream) => upstream.pool.destroy()));
    this.#upstreams.clear();
  }

  /** Gives up the oldest other pool; its exchanges finish. */
  #evict(keep: string): void {
    for (const [base, upstream] of this.#upstreams) {
      if (base === keep) continue;
      this.#upstreams.delete(base);
      upstream.pool.close().catch(() => {
        // Closing only fails when the pool is destroyed already, which is what we are after.
      });
      return;
    }
  }
}
