/**
 * The gateway's listeners for the proxy's hosts. Part of the composition root; main thread.
 */
import type { ProxiedRoute } from '../gateway/route-table.ts';

/**
 * Maximum number of hosts for which the gateway has a listener. Wildcards allow any number of hosts. A further host
 * replaces the least recently used host without a tunnel. If every host has a tunnel, the further host gets no listener.
 */
const PROXY_ROUTES_MAX = 256;

/** The methods of a server thread that the proxy uses. */
export interface RoutedServer {
  openRoute(route: ProxiedRoute): Promise<number>;
  closeRoute(authority: string): Promise<void>;
}

/** The listeners for one host. */
interface OpenRoute {
  /** Ports, one per server thread. */
  ports: Promise<number[]>;
  /** Number of tunnels that use the listeners. */
  tunnels: number;
}

export class ProxyRoutes {
  readonly #servers: readonly RoutedServer[];
  /** Routes by host, in order of use, the most recently used last. */
  readonly #routes = new Map<string, OpenRoute>();
  #next = 0;

  /** @param servers all server threads. Tunnels are spread over them */
  constructor(servers: readonly RoutedServer[]) {
    this.#servers = servers;
  }

  /**
   * Begins a tunnel to a host.
   * @returns the port for the host on one of the servers, in turn, until `leave`. null if every host has a tunnel and
   *   the limit on hosts is reached, or if a server cannot open a listener; there is then nothing to leave
   */
  async take(route: ProxiedRoute): Promise<number | null> {
    const open = this.#routes.get(route.authority) ?? this.#open(route);
    if (open === null) return null;
    open.tunnels++;
    this.#markUsed(route.authority, open);
    this.#next = (this.#next + 1) % this.#servers.length;
    const at = this.#next;
    try {
      return (await open.ports)[at]!;
    } catch {
      return null;
    }
  }

  /** Ends a tunnel that has a port of `take`. */
  leave(authority: string): void {
    const open = this.#routes.get(authority);
    if (open === undefined || open.tunnels === 0) return;
    open.tunnels--;
    this.#markUsed(authority, open);
  }

  /** Ends all tunnels, because the proxy thread has ended. */
  leaveAll(): void {
    for (const open of this.#routes.values()) open.tunnels = 0;
  }

  #open(route: ProxiedRoute): OpenRoute | null {
    if (this.#routes.size >= PROXY_ROUTES_MAX && !this.#freeOne()) return null;
    const open: OpenRoute = {
      ports: Promise.all(this.#servers.map((server) => server.openRoute(route))),
      tunnels: 0,
    };
    open.ports.catch(() => this.#close(route.authority));
    return open;
  }

  /** Closes the least recently used route without a tunnel. @returns false: every route has a tunnel */
  #freeOne(): boolean {
    for (const [authority, { tunnels }] of this.#routes) {
      if (tunnels > 0) continue;
      this.#close(authority);
      return true;
    }
    return false;
  }

  #close(authority: string): void {
    this.#routes.delete(authority);
    // A server that fails to close a listener is stopping, and closes all of them.
    for (const server of this.#servers) server.closeRoute(authority).catch(() => {});
  }

  #markUsed(authority: string, open: OpenRoute): void {
    this.#routes.delete(authority);
    this.#routes.set(authority, open);
  }
}
