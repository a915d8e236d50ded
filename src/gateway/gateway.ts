/**
 * Takes each request from the listener and decides whether it is an admin request, a request to refuse, a step for the
 * student, or an exchange to forward. Server threads.
 */

import { CatalogueError, toCatalogueError } from '../errors.ts';
import { AllowedHosts } from '../http/allowed-hosts.ts';
import type { HttpStream } from '../http/http-stream.ts';
import { TUNNEL_IDLE_MS } from '../limits.ts';
import { classifyRequest } from '../providers/classify.ts';
import { answerAdmin, isAdminPath } from './admin.ts';
import type { CaptureAdmin } from './capture/capture-control.ts';
import type { CaptureQueue } from './capture/capture-queue.ts';
import { Forward, type ForwardContext, replyError } from './forward.ts';
import { filterRequestHeaders } from './headers.ts';
import { refusePages } from './page-guard.ts';
import type { Relegation } from './relegation/relegation.ts';
import { type Destination, type ProxiedRoute, type RouteBases, RouteTable } from './route-table.ts';
import { Tunnel } from './tunnel/tunnel.ts';
import { TunnelCapture } from './tunnel/tunnel-capture.ts';
import { UpstreamPools } from './upstream/upstream-pools.ts';

interface GatewayOptions {
  bases: RouteBases;
  note: string;
  /** null: nothing is captured, as in the benchmark's baseline. */
  capture: CaptureQueue | null;
  admin: CaptureAdmin;
  /** null or absent: no step is shown to a student. */
  relegation?: Relegation | null;
  /**
   * Host names that requests to admin routes and to routes with a credential may use, in addition
   * to names that only a private network can have.
   */
  allowed_hosts?: readonly string[];
  /**
   * Certificate authorities (PEM) that are trusted for upstreams in addition to the default ones;
   * null or absent: none.
   */
  upstream_ca?: string | null;
}

/** Sent with a refused WebSocket handshake. */
const UPGRADE_LINES = 'Upgrade: websocket\r\nConnection: Upgrade\r\n';

export class Gateway {
  readonly routes: RouteTable;
  readonly #pools: UpstreamPools;
  readonly #context: ForwardContext;
  readonly #admin: CaptureAdmin;
  readonly #relegation: Relegation | null;
  readonly #hosts: AllowedHosts;
  readonly #tunnels = new Set<Tunnel>();
  #ending: NodeJS.Timeout | null = null;

  constructor(options: GatewayOptions) {
    this.#pools = new UpstreamPools(options.upstream_ca ?? null);
    this.routes = new RouteTable(options.bases, this.#pools);
    this.#context = { capture: options.capture, note: options.note };
    this.#admin = options.admin;
    this.#relegation = options.relegation ?? null;
    this.#hosts = new AllowedHosts(options.allowed_hosts ?? []);
  }

  /** The handler for the listener. */
  readonly onStream = (stream: HttpStream): void => {
    const { head } = stream;
    if (isAdminPath(head.path)) {
      void answerAdmin(stream, this.#admin, this.routes.rows, this.#hosts);
      return;
    }
    // Clients cannot open a tunnel on this port. The parser accepts CONNECT with a path as its target, so
    // this handler must refuse it.
    if (head.method === 'CONNECT') {
      replyError(stream, new CatalogueError('method_not_allowed'));
      return;
    }
    if (!stream.is_switch && isWebSocketUpgrade(head.headers)) {
      replyError(stream, new CatalogueError('upgrade_required'), UPGRADE_LINES);
      return;
    }
    const destination = this.routes.resolve(head.path);
    if (destination === null) {
      replyError(
        stream,
        new CatalogueError(
          'bad_region',
          `A region such as us-east-1 must follow the prefix: ${this.routes.nameRegionPrefix(head.path)}/{region}/…`,
        ),
      );
      return;
    }
    if (destination.headers !== undefined && !this.#admits(stream)) return;
    this.#send(stream, destination);
  };

  /** Refuses requests of web pages to routes that add the operator's credential. */
  #admits(stream: HttpStream): boolean {
    try {
      refusePages(stream.head, this.#hosts, 'Routes that add a credential');
      return true;
    } catch (thrown) {
      replyError(stream, toCatalogueError(thrown));
      return false;
    }
  }

  /**
   * Returns the handler of a listener for traffic that the proxy has decrypted. Whatever its path, a request
   * goes to the host for which the client opened the tunnel. A request with another `Host`, and CONNECT, are
   * refused.
   */
  handlerOf(route: ProxiedRoute): (stream: HttpStream) => void {
    return (stream) => {
      const { head } = stream;
      if (head.method === 'CONNECT') {
        replyError(stream, new CatalogueError('method_not_allowed'));
        return;
      }
      if (!stream.is_switch && isWebSocketUpgrade(head.headers)) {
        replyError(stream, new CatalogueError('upgrade_required'), UPGRADE_LINES);
        return;
      }
      const destination = this.routes.resolveProxied(route, head);
      if (destination === null) {
        replyError(
          stream,
          new CatalogueError('foreign_host', `Host must be ${route.authority}, the host of the tunnel`),
        );
        return;
      }
      this.#send(stream, destination);
    };
  }

  #send(stream: HttpStream, destination: Destination): void {
    const { head } = stream;
    if (stream.is_switch) {
      this.#tunnel(stream, destination);
      return;
    }
    const requestClass = classifyRequest(destination.route, head.method, destination.path);
    if (this.#relegation?.take(this.#context, stream, destination, requestClass)) return;
    new Forward(this.#context, stream, destination, requestClass).start();
  }

  /**
   * Ends each tunnel once no bytes have passed through it for TUNNEL_IDLE_MS. Otherwise tunnels stay open as
   * long as client and upstream keep them open.
   */
  endTunnels(): void {
    if (this.#tunnels.size === 0 || this.#ending !== null) return;
    const look = () => {
      const before = performance.now() - TUNNEL_IDLE_MS;
      for (const tunnel of [...this.#tunnels]) if (tunnel.busy_at_ms < before) tunnel.cut();
      if (this.#tunnels.size === 0 && this.#ending !== null) clearInterval(this.#ending);
    };
    this.#ending = setInterval(look, TUNNEL_IDLE_MS / 4).unref();
    look();
  }

  #tunnel(stream: HttpStream, destination: Destination): void {
    const { capture } = this.#context;
    const filtered = filterRequestHeaders(stream.head);
    const tap =
      capture === null ? null : new TunnelCapture(this.#context, capture, stream, destination, filtered);
    const tunnel = new Tunnel(stream, destination, filtered, tap, () => this.#tunnels.delete(tunnel));
    this.#tunnels.add(tunnel);
    tunnel.start();
  }

  /** Ends every tunnel and every upstream connection. */
  async close(): Promise<void> {
    if (this.#ending !== null) clearInterval(this.#ending);
    for (const tunnel of [...this.#tunnels]) tunnel.cut();
    this.#pools.close();
  }
}

/**
 * Whether a request asks for a WebSocket. An Upgrade header counts only if Connection lists `upgrade` (RFC
 * 9110 section 7.8).
 */
function isWebSocketUpgrade(headers: readonly string[]): boolean {
  let isAsked = false;
  let isNominated = false;
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === 'upgrade') isAsked ||= headers[at + 1]!.toLowerCase() === 'websocket';
    else if (headers[at] === 'connection') isNominated ||= headers[at + 1]!.toLowerCase().includes('upgrade');
  }
  return isAsked && isNominated;
}
