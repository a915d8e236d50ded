/**
 * Checks that no other process has a port before several threads share it. Sharing (SO_REUSEPORT) switches off the
 * system's own check, so a second process would receive half of the first one's requests unnoticed. Main thread; a
 * server thread for its own port with TLS, and to find out why it cannot listen.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/**
 * Checks that the port is free, or finds a free port.
 * @param port 0: any free port
 * @returns the port, which was free at the time of the check
 * @throws Error if the address is in use or not allowed
 */
export async function findPort(host: string, port: number): Promise<number> {
  const probe = createServer();
  try {
    await once(probe.listen({ host, port, exclusive: true }), 'listening');
  } catch (thrown) {
    throw describeListenError(host, port, thrown);
  }
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === 'string') throw describeListenError(host, port);
  return address.port;
}

/** A port that the system assigns to no other socket until it is released. */
interface HeldPort {
  port: number;
  release(): void;
}

/**
 * Like `findPort`. If `port` is 0 and the system lets sockets share a port (Linux), a socket also holds the port that
 * was found: later listeners share the port, and the system assigns it to no other socket. Call `release` once a
 * listener listens; otherwise the holding socket would receive a part of the connections.
 */
export async function holdPort(host: string, port: number): Promise<HeldPort> {
  const found = async () => ({ port: await findPort(host, port), release: () => {} });
  if (port !== 0) return found();
  const holder = createServer();
  try {
    await once(holder.listen({ host, port, reusePort: true }), 'listening');
  } catch {
    return found();
  }
  return { port: (holder.address() as AddressInfo).port, release: () => void holder.close() };
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EADDRNOTAVAIL: "the address is not this machine's",
  ENOTFOUND: 'no such host is known',
  EACCES: 'the system does not allow this port',
};

/**
 * Makes an error with the reason and the remedy in one line. Like system errors, it is shown
 * without a stack.
 */
export function describeListenError(host: string, port: number, cause?: unknown): Error {
  const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? 'EADDRINUSE';
  const reason = REASONS[code] ?? `the system refuses the address (${code})`;
  const words = `cannot listen on ${host}:${port}: ${reason}; HOST and PORT choose another address, GW_HOST and GW_PORT the gateway's, GW_PROXY_HOST and GW_PROXY_PORT the proxy's`;
  return Object.assign(new Error(words, { cause }), { code });
}

/** Tries the address again to find out why a listener failed without a reason. */
export async function explainListenFailure(host: string, port: number): Promise<Error> {
  return findPort(host, port).then(
    () => describeListenError(host, port),
    (thrown: Error) => thrown,
  );
}
