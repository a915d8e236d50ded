/**
 * A relay between an agent and the service that adds a given round-trip time. The relay delays the bytes of each
 * direction by half of this time, and keeps their order. For suites that measure what distance costs. In the process of
 * a suite.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

interface LongWay {
  url: string;
  close(): void;
}

/** Starts a relay to a port. @param roundTripMs 0: no delay */
export async function layWay(port: number, roundTripMs: number): Promise<LongWay> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from.setNoDelay());
      from.on('error', () => {});
      from.on('data', (bytes) => {
        if (roundTripMs === 0) to.write(bytes);
        else setTimeout(() => to.write(bytes), roundTripMs / 2);
      });
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
