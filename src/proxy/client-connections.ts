/**
 * Keeps the connections of the proxy's clients by address, with two caps per address. One cap is for connections
 * without a tunnel: their heads have not arrived, or they were refused and are not closed yet. The other cap is for all
 * open connections. So a client that sends heads slowly does not block other clients. Proxy thread.
 */
import type { Socket } from 'node:net';
import { PUBLIC_ADDRESS_CONNECTIONS } from '../limits.ts';
import { isNear, networkOf } from '../std/network-address.ts';
import type { TunnelCounts } from './tunnel-counts.ts';

/**
 * Maximum numbers of connections without a tunnel: for all addresses together, and for one address. Beyond the maximum
 * of an address, its oldest such connection is closed. Beyond the other maximum, the oldest such connection of the
 * address with the most of them is closed.
 */
export const PROXY_HEADS_MAX = 256;
export const PROXY_HEADS_PER_ADDRESS = 64;

interface Client {
  /** All open connections. */
  open: number;
  /** Connections without a tunnel, oldest first. */
  waiting: Set<Socket>;
}

export class ClientConnections {
  readonly #byAddress: number | null;
  readonly #counts: TunnelCounts;
  readonly #clients = new Map<string, Client>();
  readonly #all = new Map<Socket, Client>();
  #waiting = 0;

  /**
   * @param byAddress MAX_CONNECTIONS_PER_ADDRESS; 0 for no cap; null for the default, which applies to public addresses
   * only
   */
  constructor(byAddress: number | null, counts: TunnelCounts) {
    this.#byAddress = byAddress;
    this.#counts = counts;
  }

  /**
   * Adds a new connection. Closes an older connection if a maximum of connections without a tunnel is reached: the
   * oldest of this address, or of the address with the most if the maximum of all addresses is reached. The oldest is
   * the least likely to be a real client, whose head arrives at once.
   * @returns whether the address may have the connection. If not, the connection is not added
   */
  add(socket: Socket): boolean {
    const address = socket.remoteAddress ?? '';
    const network = networkOf(address);
    const client = this.#clients.get(network) ?? { open: 0, waiting: new Set() };
    const cap = this.#byAddress ?? (isNear(address) ? 0 : PUBLIC_ADDRESS_CONNECTIONS);
    if (cap > 0 && client.open >= cap) {
      this.#counts.refuse('connections');
      return false;
    }
    this.#clients.set(network, client);
    if (client.waiting.size >= PROXY_HEADS_PER_ADDRESS) this.#drop(client);
    else if (this.#waiting >= PROXY_HEADS_MAX) this.#drop(this.#findBusiest());
    client.open++;
    client.waiting.add(socket);
    this.#waiting++;
    this.#all.set(socket, client);
    socket.once('close', () => {
      this.giveTunnel(socket);
      this.#all.delete(socket);
      if (--client.open === 0) this.#clients.delete(network);
    });
    return true;
  }

  /** Records that the connection has a tunnel. */
  giveTunnel(socket: Socket): void {
    if (this.#all.get(socket)?.waiting.delete(socket) === true) this.#waiting--;
  }

  /** Closes all connections. */
  destroy(): void {
    for (const socket of this.#all.keys()) socket.destroy();
  }

  #drop(client: Client): void {
    const [oldest] = client.waiting;
    if (oldest === undefined) return;
    this.#counts.refuse('heads');
    this.giveTunnel(oldest);
    oldest.resetAndDestroy();
  }

  /** Finds the client with the most connections without a tunnel. Called only if the maximum is reached. */
  #findBusiest(): Client {
    let busiest: Client | null = null;
    for (const client of this.#clients.values())
      if (busiest === null || client.waiting.size > busiest.waiting.size) busiest = client;
    return busiest!;
  }
}
