/**
 * The gateway's listeners for the proxy's hosts: a host without a tunnel makes room for another host, and a host with a
 * tunnel keeps its listener. Real gateways with real listeners.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { CaptureControl } from '../../src/gateway/capture/capture-control.ts';
import { createLog } from '../../src/log.ts';
import { GatewayServer } from '../../src/threads/gateway-server.ts';
import { ProxyRoutes } from '../../src/threads/proxy-routes.ts';

const LIMIT = 256;
let gateways: GatewayServer[] = [];
let routes: ProxyRoutes;

beforeEach(async () => {
  const config = loadConfig({ listener: 'gateway' }, { GW_PORT: '0' });
  const services = {
    config,
    writer: null,
    arrivals: new SharedArrayBuffer(8),
    queue_places: new SharedArrayBuffer(8),
    admin: new CaptureControl({ version: '0', db_path: '', max_queue: 0, writer: null, servers: [] }),
    log: createLog('silent'),
  };
  gateways = await Promise.all([GatewayServer.start(services), GatewayServer.start(services)]);
  routes = new ProxyRoutes(gateways);
});

afterEach(async () => {
  for (const gateway of gateways) {
    await gateway.drain(0);
    await gateway.close(Number.NEGATIVE_INFINITY);
  }
});

const take = (host: number) => routes.take({ authority: `host-${host}.example`, provider: 'other' });
const leave = (host: number) => routes.leave(`host-${host}.example`);

/** Tries to connect. @returns whether a listener accepted the connection */
async function isListening(port: number | null): Promise<boolean> {
  const socket = connect(port!, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch (thrown) {
    expect(thrown).toMatchObject({ code: 'ECONNREFUSED' });
    return false;
  } finally {
    socket.destroy();
  }
}

it('a further host replaces the least recently used host without a tunnel', async () => {
  const ports: (number | null)[] = [];
  for (let host = 0; host < LIMIT; host++) ports.push(await take(host));
  expect(new Set(ports).size).toBe(LIMIT);
  expect(ports).not.toContain(null);
  // Every host has a tunnel.
  expect(await take(LIMIT)).toBe(null);
  expect(await take(7)).not.toBe(null);

  leave(7);
  leave(9);
  leave(8);
  // Host 7 has a second tunnel, and host 9 was used before host 8.
  const further = await take(LIMIT);
  expect(await isListening(further)).toBe(true);
  await expect.poll(() => isListening(ports[9]!)).toBe(false);
  expect(await Promise.all([7, 8, 10].map((host) => isListening(ports[host]!)))).toEqual([true, true, true]);

  // Host 9 gets a listener again, and host 8 makes room for it.
  const again = await take(9);
  expect(await isListening(again)).toBe(true);
  await expect.poll(() => isListening(ports[8]!)).toBe(false);
  expect(await take(LIMIT + 1)).toBe(null);

  // The proxy thread has ended, and all tunnels with the thread.
  routes.leaveAll();
  expect(await isListening(await take(LIMIT + 1))).toBe(true);
});

it('a listener is closed if another server thread cannot open one for the same host', async () => {
  const [stopping, running] = gateways;
  const known = await running!.openRoute({ authority: 'host-0.example', provider: 'other' });
  await stopping!.drain(0);
  expect(await take(0)).toBe(null);
  await expect.poll(() => isListening(known)).toBe(false);
});
