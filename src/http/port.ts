/**
 * Finds out, before several threads share a port, that nobody else has it. Sharing switches off the system's own check
 * (SO_REUSEPORT), so a second process would quietly take half of the first one's requests. Main thread.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * @param port 0: one that the system picks
 * @returns the port, which nobody listened on a moment ago
 * @throws Error when the address is in use or not ours
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

/** One line that says what to do. */
export function describeListenError(host: string, port: number, cause?: unknown): Error {
  return new Error(
    `cannot listen on ${host}:${port}: the port is in use or the address is not this machine's; choose another with --port or --host`,
    { cause },
  );
}
