/** A tunnel to a host that this proxy does not capture: bytes pass both ways, unread and unrecorded. Proxy thread. */
import { connect, isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ReachableAddresses, UnreachableError } from './reachable-address.ts';

/** How long a blind tunnel may take to open before the client gets 504. */
const PROXY_CONNECT_MS = 30_000;
/** How long a blind tunnel stays open without traffic, while both sides are open, and after one side has ended. */
const PROXY_IDLE_MS = 3_600_000;
const PROXY_HALF_OPEN_MS = 60_000;

/** The destination that a client asked for. */
export interface Target {
  /** A name in lower case without a trailing dot, or an address without brackets. */
  host: string;
  port: number;
}

/**
 * Connects to the target.
 * @throws UnreachableError for a forbidden destination, an error with code ETIMEDOUT, the system's error, or the reason
 *   of `givingUp`
 */
export async function connectBlind(
  { host, port }: Target,
  addresses: ReachableAddresses,
  givingUp: AbortSignal,
): Promise<Socket> {
  if (isIP(host) !== 0 && !addresses.allows(host, port)) throw new UnreachableError();
  const over = new AbortController();
  const socket = connect({
    host,
    port,
    lookup: addresses.lookupFor(port, over.signal),
    // One side may end while the other still sends.
    allowHalfOpen: true,
    noDelay: true,
  });
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const timer = setTimeout(() => {
    reject(Object.assign(new Error('the connection took too long'), { code: 'ETIMEDOUT' }));
  }, PROXY_CONNECT_MS);
  const giveUp = () => reject(givingUp.reason as Error);
  givingUp.addEventListener('abort', giveUp, { once: true });
  socket.once('connect', () => resolve(socket));
  socket.once('error', reject);
  try {
    return await promise;
  } catch (thrown) {
    socket.on('error', () => {});
    socket.destroy();
    throw thrown;
  } finally {
    clearTimeout(timer);
    over.abort();
    givingUp.removeEventListener('abort', giveUp);
  }
}

export class BlindTunnel {
  /** Time at which bytes last passed, by `performance.now()`. */
  #busyAtMs = performance.now();
  readonly #client: Socket;
  readonly #target: Socket;
  readonly #onOver: (tunnel: BlindTunnel) => void;
  #seenBytes = 0;
  #left = 2;

  /** @param onOver called once, when both sides are closed */
  constructor(client: Socket, target: Socket, onOver: (tunnel: BlindTunnel) => void) {
    this.#client = client;
    this.#target = target;
    this.#onOver = onOver;
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const)
      this.#link(from, to);
  }

  /** Whether bytes have passed within this time. */
  isBusy(withinMs: number): boolean {
    const bytes = this.#client.bytesRead + this.#target.bytesRead;
    if (bytes !== this.#seenBytes) this.#busyAtMs = performance.now();
    this.#seenBytes = bytes;
    return performance.now() - this.#busyAtMs < withinMs;
  }

  /** Closes both sides immediately. */
  cut(): void {
    this.#client.destroy();
    this.#target.destroy();
  }

  #link(from: Socket, to: Socket): void {
    from.setTimeout(PROXY_IDLE_MS, () => this.cut());
    from.on('error', () => this.cut());
    from.once('end', () => {
      for (const socket of [this.#client, this.#target]) socket.setTimeout(PROXY_HALF_OPEN_MS);
    });
    from.once('close', () => {
      // Bytes that were already received are still sent.
      to.destroySoon();
      this.#left--;
      if (this.#left === 0) this.#onOver(this);
    });
    (from as Duplex).pipe(to);
  }
}
