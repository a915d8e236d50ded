/**
 * The proxy thread from the outside: a thread that dies comes back at the same port, and its tunnels are counted as
 * closed.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { TunnelCounts } from '../../src/proxy/tunnel-counts.ts';
import { ProxyThread } from '../../src/threads/proxy-thread.ts';

it('the proxy thread is restarted when it ends by itself, and not when it is stopped', async () => {
  const told: string[] = [];
  const counts = new TunnelCounts();
  const thread = new ProxyThread({
    entry: new URL('../fixtures/dying-proxy.ts', import.meta.url),
    host: '127.0.0.1',
    port: 0,
    hosts: [],
    keys: [],
    blind: 'off',
    own_ports: [],
    tunnels_max: 1,
    by_address: null,
    data_dir: '/nonexistent',
    log_level: 'silent',
    counts,
    servers: [],
    log: { error: (fields) => told.push(JSON.stringify(fields)) },
  });
  await thread.start();
  onTestFinished(() => thread.stop());
  const port = Number(new URL(thread.url).port);
  const ask = async (): Promise<string> => {
    const socket = connect(port, '127.0.0.1');
    try {
      return String((await once(socket, 'data'))[0]);
    } catch {
      return '';
    } finally {
      socket.destroy();
    }
  };
  expect(await ask()).toBe('alive');
  const killer = connect(port, '127.0.0.1');
  killer.on('error', () => {});
  killer.write('die');
  await once(killer.resume(), 'close');
  await expect.poll(ask).toBe('alive');
  expect(told).toEqual(['{"reason":"killed by a client"}']);
  expect(counts.read()).toMatchObject({ open: { blind: 0 }, tunnels: { blind: 1 } });
  await thread.drain();
  await thread.stop();
  expect(await ask()).toBe('');
});
