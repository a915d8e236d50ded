/**
 * The connections of the listeners on node:http: their limits and counts, corresponding to `native/sockets` for
 * uWebSockets.js. One thread of the process has such listeners. Server thread.
 */
import { PUBLIC_ADDRESS_CONNECTIONS } from '../limits.ts';
import { isNear, networkOf } from '../std/network-address.ts';

const NOTHING = { open: 0, refused_total: 0, refused_address: 0, refused_framing: 0, slow_uploads: 0 };

class PlainConnections {
  readonly counts = { ...NOTHING };
  readonly #byNetwork = new Map<string, number>();
  #total = 0;
  #byAddress = PUBLIC_ADDRESS_CONNECTIONS;
  #isNearCapped = false;

  /**
   * Sets the limits on all connections together and on those of one address, or of one IPv6 network (see `networkOf`).
   * 0: no limit.
   * @param isNearCapped whether the limit per address also applies to loopback and private networks
   */
  cap(total: number, byAddress: number, isNearCapped: boolean): void {
    this.#total = total;
    this.#byAddress = byAddress;
    this.#isNearCapped = isNearCapped;
  }

  /** Counts a new connection. @returns a function to call when it closes; null: the connection exceeds a limit */
  take(address: string): (() => void) | null {
    const { counts } = this;
    if (this.#total > 0 && counts.open >= this.#total) {
      counts.refused_total++;
      return null;
    }
    const network = networkOf(address);
    const open = this.#byNetwork.get(network) ?? 0;
    const isCapped = this.#byAddress > 0 && (this.#isNearCapped || !isNear(address));
    if (isCapped && open >= this.#byAddress) {
      counts.refused_address++;
      return null;
    }
    counts.open++;
    this.#byNetwork.set(network, open + 1);
    return () => {
      counts.open--;
      const left = this.#byNetwork.get(network)! - 1;
      if (left === 0) this.#byNetwork.delete(network);
      else this.#byNetwork.set(network, left);
    };
  }
}

export const plainConnections = new PlainConnections();
