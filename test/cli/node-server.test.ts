/** The whole service on Node's own HTTP server, which has one server thread even if more are configured. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { CliChild } from './child.ts';

const folder = mkdtempSync(join(tmpdir(), 'node-server-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('a service on node:http has one server thread, forwards, captures, and answers on the API', {
  tags: 'long',
}, async () => {
  const upstream = createServer((request, response) => {
    request.resume().on('end', () => response.end(`{"path":"${request.url}"}`));
  });
  await once(upstream.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void upstream.close());
  const base = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  await using child = new CliChild(['up', '--port', '0'], {
    env: {
      DATA_DIR: folder,
      PORT: '0',
      HTTP_SERVER: 'node',
      SERVER_THREADS: '2',
      GW_UPSTREAM_BASE: base,
      AUTH_DB_URL: 'embedded:',
    },
  });
  await child.waitForOutput(/See what/);
  expect(child.stdout).toContain('framing_guard: node');
  expect(child.stdout).toMatch(/\b1 server, 1 actor/);
  expect(child.stderr).not.toContain('uWebSockets.js');
  const [, gateway = ''] = /^ {2}Gateway +(http:\/\/\S+) {2}->/m.exec(child.stdout)!;
  const [, api = ''] = /^ {2}API +(http:\/\/\S+)/m.exec(child.stdout)!;
  const answer = await fetch(`${gateway}/v1/messages`, { method: 'POST', body: '{"model":"m"}' });
  expect(await answer.json()).toEqual({ path: '/v1/messages' });
  expect((await fetch(`${api}/health`)).status).toBe(200);
  await fetch(`${gateway}/__gw/flush`, { method: 'POST' });
  const stats = (await (await fetch(`${gateway}/__gw/stats`)).json()) as { exchanges: object };
  expect(stats.exchanges).toMatchObject({ captured: 1 });
  child.process.kill('SIGTERM');
  expect((await child.ended).code).toBe(0);
});
