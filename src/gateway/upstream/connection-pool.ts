/**
 * The connections to one upstream: one for each concurrent request, and unused ones that are kept for later requests.
 * The most recently used connection is reused first, and an unused one is closed after a while. Server threads; each
 * has its own pools.
 */
import type { SecureContext } from 'node:tls';
import { UpstreamError } from './answer-error.ts';
import {
  type AnswerHandler,
  type ConnectionOwner,
  UpstreamConnection,
  type UpstreamRequest,
} from './upstream-connection.ts';

/**
 * Maximum time without bytes from an upstream, before the head and between two chunks. The time in which the upstream
 * waits for the gateway or the client does not count. A stream may pause for minutes while the model thinks.
 */
export const UPSTREAM_TIMEOUT_MS = 3_600_000;
/**
 * How long an unused connection is kept, if the upstream announces no timeout. Most providers close idle connections
 * later. A request on a connection that the upstream has just closed is retried if its whole body is still in memory.
 */
export const UPSTREAM_IDLE_MS = 30_000;
/** Interval of the search for unused and silent connections. */
const UPSTREAM_SWEEP_MS = 5_000;

/** A connection is not reused in this last part of the timeout that the upstream announced. */
const KEPT_MARGIN_MS = 2_000;
/**
 * Maximum time for which an unused connection is kept, even if the upstream announces a longer
 * timeout.
 */
const KEPT_MS_MAX = 600_000;
/**
 * Maximum number of connections opened in one tick; further ones wait for the next ticks. Opening one takes as long as
 * forwarding several frames, and in a burst of requests the streams in progress come first.
 */
const OPENS_A_TURN = 8;
const SILENT_SWEEPS_MAX = Math.ceil(UPSTREAM_TIMEOUT_MS / UPSTREAM_SWEEP_MS);

export class ConnectionPool implements ConnectionOwner {
  session: Buffer | undefined;
  readonly trust: SecureContext | undefined;
  readonly #url: URL;
  readonly #all = new Set<UpstreamConnection>();
  readonly #idle: UpstreamConnection[] = [];
  /** Connections that wait to be opened; each has a request. */
  readonly #unopened = new Set<UpstreamConnection>();
  #openedThisTurn = 0;
  #nextTick: NodeJS.Immediate | null = null;
  #sweepTimer: NodeJS.Timeout | null = null;
  /** If true, connections are closed after their answer. */
  #isClosing = false;
  #isDestroyed = false;

  /**
   * @param origin http or https, host and port
   * @param trust trusted certificate authorities; default: Node's default ones
   */
  constructor(origin: string, trust?: SecureContext) {
    this.#url = new URL(origin);
    this.trust = trust;
  }

  /** Sends a request. Errors of any kind come through the handler's methods. */
  send(request: UpstreamRequest, handler: AnswerHandler): void {
    if (this.#isDestroyed) {
      handler.onError(closing());
      return;
    }
    const connection = this.#takeIdle() ?? this.#open();
    connection.begin(request, handler);
  }

  /**
   * Closes idle connections. From now on, no connection is kept after its answer. Requests in progress and
   * later ones still get their answers.
   */
  close(): void {
    this.#isClosing = true;
    for (const connection of this.#idle.splice(0)) connection.destroy(closing());
  }

  /** Ends every connection, busy ones too, and accepts no more requests. */
  destroy(): void {
    this.#isDestroyed = true;
    for (const connection of [...this.#all]) connection.destroy(closing());
  }

  onRest(connection: UpstreamConnection): void {
    const { kept_ms } = connection;
    const left = kept_ms === null ? UPSTREAM_IDLE_MS : Math.min(kept_ms - KEPT_MARGIN_MS, KEPT_MS_MAX);
    if (left <= 0 || this.#isClosing) {
      connection.destroy(closing());
      return;
    }
    connection.expires_at = performance.now() + left;
    this.#idle.push(connection);
  }

  onGone(connection: UpstreamConnection): void {
    this.#all.delete(connection);
    this.#unopened.delete(connection);
    // Usually this connection was used last.
    const place = this.#idle.lastIndexOf(connection);
    if (place >= 0) this.#idle.splice(place, 1);
    if (this.#all.size === 0 && this.#sweepTimer !== null) {
      clearInterval(this.#sweepTimer);
      this.#sweepTimer = null;
    }
  }

  #takeIdle(): UpstreamConnection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || connection.expires_at > performance.now()) return connection;
      connection.destroy(closing());
    }
  }

  #open(): UpstreamConnection {
    const connection = new UpstreamConnection(this.#url, this);
    this.#all.add(connection);
    this.#unopened.add(connection);
    this.#openSome();
    if (this.#sweepTimer === null) {
      this.#sweepTimer = setInterval(() => this.#sweep(), UPSTREAM_SWEEP_MS);
      this.#sweepTimer.unref();
    }
    return connection;
  }

  #openSome(): void {
    for (const connection of this.#unopened) {
      if (this.#openedThisTurn === OPENS_A_TURN) break;
      this.#unopened.delete(connection);
      this.#openedThisTurn++;
      connection.open();
    }
    if (this.#openedThisTurn === 0) return;
    this.#nextTick ??= setImmediate(() => {
      this.#nextTick = null;
      this.#openedThisTurn = 0;
      this.#openSome();
    });
  }

  /** Closes connections that were unused for too long, and gives up on upstreams that are silent for too long. */
  #sweep(): void {
    const now = performance.now();
    for (const connection of [...this.#all]) {
      if (connection.isIdle) {
        if (connection.expires_at <= now) connection.destroy(closing());
      } else if (connection.isWaitingForUs) {
        connection.silent_sweeps = 0;
      } else if (++connection.silent_sweeps > SILENT_SWEEPS_MAX) {
        connection.destroy(new UpstreamError('ETIMEDOUT', 'the upstream has been silent for too long'));
      }
    }
  }
}

function closing(): UpstreamError {
  return new UpstreamError('CLOSED', 'the gateway closed the connection');
}
