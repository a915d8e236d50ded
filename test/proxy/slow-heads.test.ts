/**
 * Clients of the proxy that send their heads slowly, or open more connections than an address may have: others get
 * their tunnels. Real sockets; other loopback addresses represent other clients.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PROXY_HEADS_PER_ADDRESS } from '../../src/proxy/client-connections.ts';
import { readStats, type Stats } from '../fixtures/capture-gateway.ts';
import {
  askForTunnel,
  openSecureUpstream,
  ProxiedService,
  type SecureUpstream,
} from '../fixtures/proxied-service.ts';

const CONNECTIONS = 20;
const SLOW = 1_320;
const capped = new ProxiedService();
let upstream: SecureUpstream;

beforeAll(async () => {
  upstream = await openSecureUpstream((_request, response) => response.end('whole'));
  await capped.start(authority(), { MAX_CONNECTIONS_PER_ADDRESS: String(CONNECTIONS) });
});
afterAll(async () => {
  await capped[Symbol.asyncDispose]();
  upstream.close();
});

const authority = () => `localhost:${upstream.port}`;

async function readRefused({ gateway }: ProxiedService): Promise<Record<string, number>> {
  const stats = (await readStats(gateway)) as Stats & { proxy: { refused: Record<string, number> } };
  return stats.proxy.refused;
}

/** A client that sends these bytes and then stops. It may be reset at once. */
async function openSilent(port: number, localAddress: string, words: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true });
  socket.on('error', () => {});
  await new Promise<void>((resolve) => {
    socket.once('connect', resolve);
    socket.once('close', () => resolve());
  });
  socket.write(words);
  return socket;
}

describe.skipIf(process.platform !== 'linux')('a client of the proxy', { tags: 'long' }, () => {
  const service = new ProxiedService();
  beforeAll(() => service.start(authority()));
  afterAll(() => service[Symbol.asyncDispose]());

  it('that sends many heads slowly harms no other client, not even one with the same address', async () => {
    const slow = await Promise.all(
      Array.from({ length: SLOW }, () => openSilent(service.port, '127.0.0.2', 'CONNECT ')),
    );
    // The kernel completes connections before the proxy accepts them. If its queue is full, some connections are
    // delayed.
    await expect
      .poll(async () => (await readRefused(service)).heads)
      .toBeGreaterThanOrEqual(SLOW - PROXY_HEADS_PER_ADDRESS);
    const others = Array.from({ length: 60 }, () =>
      askForTunnel(service.port, authority(), undefined, '127.0.0.3'),
    );
    const neighbours = Array.from({ length: 20 }, () =>
      askForTunnel(service.port, authority(), undefined, '127.0.0.2'),
    );
    const tunnels = await Promise.all([...others, ...neighbours]);
    expect(tunnels.map(({ status }) => status)).toEqual(tunnels.map(() => 200));
    for (const { socket } of tunnels) socket.destroy();
    for (const socket of slow) socket.destroy();
  });

  it('that sends bad heads and stays connected does not keep others from connecting', async () => {
    const lingering = await Promise.all(
      Array.from({ length: 400 }, () =>
        openSilent(service.port, '127.0.0.4', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
      ),
    );
    const { status, socket } = await askForTunnel(service.port, authority(), undefined, '127.0.0.5');
    expect(status).toBe(200);
    socket.destroy();
    for (const socket of lingering) socket.destroy();
  });
});

describe.skipIf(process.platform !== 'linux')('an address', () => {
  it('has at most MAX_CONNECTIONS_PER_ADDRESS connections, and gets 503 for a further one', async () => {
    const open = (address: string) => askForTunnel(capped.port, authority(), undefined, address);
    const tunnels: Socket[] = [];
    for (let at = 0; at < CONNECTIONS; at++) {
      const { status, socket } = await open('127.0.0.6');
      expect(status).toBe(200);
      tunnels.push(socket);
    }
    expect((await open('127.0.0.6')).status).toBe(503);
    expect(await readRefused(capped)).toMatchObject({ connections: 1 });
    const gone = once(tunnels[0]!, 'close');
    tunnels[0]!.destroy();
    await gone;
    for (const socket of tunnels) socket.destroy();
  });
});
