/** The long-running commands as processes: where they listen, what they print, how they end. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { CliChild } from './child.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-cli-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const env = (more: Record<string, string> = {}) => ({
  PORT: '0',
  GW_PORT: '0',
  DATA_DIR: join(dir, 'data'),
  ...more,
});
const API = /^ {2}API +(http:\/\/\S+)$/m;
const GATEWAY = /^ {2}Gateway +(http:\/\/\S+) {2}->/m;
const SHORT_SECRET = 'warning: AUTH_JWT_SECRET has fewer than 32 bytes';
const WHOLE = /inspect --db .*\n\n$/;

describe('understudy up', () => {
  it('opens both ports, says where they are, and drains on SIGTERM', async () => {
    await using child = new CliChild(['up', '--db', join(dir, 'my captures.mdb')], {
      env: env({ VECTOR_STORE_URL: 'embedded:', AUTH_DB_URL: 'embedded:' }),
    });
    await child.waitForOutput(WHOLE);
    const api = API.exec(child.stdout)![1]!;
    const gateway = GATEWAY.exec(child.stdout)![1]!;
    expect(await (await fetch(`${api}/health`)).json()).toMatchObject({ status: 'ok' });
    expect(await (await fetch(`${gateway}/__gw/stats`)).json()).toMatchObject({ status: 'ok' });
    for (const setting of [
      `ANTHROPIC_BASE_URL=${gateway}\n`,
      `OPENAI_BASE_URL=${gateway}/v1 `,
      `GOOGLE_GEMINI_BASE_URL=${gateway}/gemini\n`,
      `AWS_ENDPOINT_URL_BEDROCK_RUNTIME=${gateway}/bedrock/`,
    ]) {
      expect(child.stdout).toContain(setting);
    }
    expect(child.stdout).toContain(`inspect --db '${join(dir, 'my captures.mdb')}'`);
    expect(child.stdout).toMatch(/^ {2}Embedded +(?:[a-z ]+, )*capture database$/m);
    expect(child.stdout, 'plain when piped').not.toContain('\u001b');
    expect(child.stderr).not.toContain('unauthenticated');
    child.process.kill('SIGTERM');
    expect(await child.ended).toMatchObject({ code: 0, signal: null });
    expect(child.stderr).toContain('SIGTERM: finishing requests in flight');
  });

  it('warns of a secret with too few bytes to sign tokens, and of a key that nothing uses', {
    tags: 'long',
  }, async () => {
    await using child = new CliChild(['serve'], {
      env: env({ AUTH_DB_URL: 'embedded:', AUTH_JWT_SECRET: 'ü'.repeat(15), AUTH_DB_SERVICE_KEY: 'hunter2' }),
    });
    await child.waitForOutput(API);
    child.process.kill('SIGTERM');
    const { code, stderr } = await child.ended;
    expect(code).toBe(0);
    expect(stderr).toContain(SHORT_SECRET);
    expect(stderr).toContain('warning: AUTH_DB_SERVICE_KEY is set but unused');
    expect(stderr).not.toContain('hunter2');
  });

  it('warns when the admin routes can be reached from other machines', { tags: 'long' }, async () => {
    await using child = new CliChild(['gateway', '--host', '0.0.0.0'], { env: env() });
    await child.waitForOutput(WHOLE);
    child.process.kill('SIGINT');
    const { code, stderr, stdout } = await child.ended;
    expect(code).toBe(0);
    expect(stderr).toContain('/__gw/ routes are unauthenticated');
    expect(stdout).toMatch(/ANTHROPIC_BASE_URL=http:\/\/127\.0\.0\.1:\d+\n/);
  });
});

describe('understudy serve', () => {
  it('starts the API alone', { tags: 'long' }, async () => {
    await using child = new CliChild(['serve'], { env: env({ AUTH_JWT_SECRET: 'ü'.repeat(16) }) });
    const [, api = ''] = await child.waitForOutput(/^ {2}API +(\S+)\n(?:.*\n)*\n$/m);
    expect(child.stdout).not.toContain('Gateway');
    for (const path of ['/health', '/health/', '/openapi.json', '/docs', '/ready']) {
      expect((await fetch(`${api}${path}`)).status, path).toBe(200);
    }
    expect(await (await fetch(`${api}/nothing`)).json()).toEqual({ detail: 'Not Found' });
    const refused = await fetch(`${api}/health`, { method: 'POST', body: '{}' });
    expect(refused.status).toBe(405);
    expect(refused.headers.get('allow')).toBe('GET, HEAD');
    const head = await fetch(`${api}/health`, { method: 'HEAD' });
    expect({ status: head.status, body: await head.text() }).toEqual({ status: 200, body: '' });
    child.process.kill('SIGTERM');
    const { code, stderr } = await child.ended;
    expect(code).toBe(0);
    expect(stderr).not.toContain(SHORT_SECRET);
  });
});

describe('the drain', () => {
  it('lets a request in progress finish', { tags: 'long' }, async () => {
    const upstream = createServer();
    upstream.listen(0, '127.0.0.1');
    await once(upstream, 'listening');
    const { port } = upstream.address() as AddressInfo;
    try {
      await using child = new CliChild(['gateway'], {
        env: env({ GW_UPSTREAM_BASE: `http://127.0.0.1:${port}` }),
      });
      await child.waitForOutput(WHOLE);
      const gateway = GATEWAY.exec(child.stdout)![1]!;

      const arrived = once(upstream, 'request');
      const answer = fetch(`${gateway}/v1/models`);
      const [, response] = await arrived;
      child.process.kill('SIGTERM');
      await once(child.process.stderr!, 'data');
      expect(child.isRunning).toBe(true);
      response.end('whole');
      expect(await (await answer).text()).toBe('whole');
      expect((await child.ended).code).toBe(0);
    } finally {
      upstream.close();
      upstream.closeAllConnections();
    }
  });

  it.each([
    ['SIGTERM', 143, '1'],
    ['SIGINT', 130, '3'],
  ] as const)(
    'ends at once on a second %s with %i, with server threads: %s',
    { tags: 'long' },
    async (signal, status, servers) => {
      const upstream = createTcpServer((each) => each.on('error', () => {}));
      upstream.listen(0, '127.0.0.1');
      await once(upstream, 'listening');
      const { port } = upstream.address() as AddressInfo;
      try {
        await using child = new CliChild(['gateway'], {
          env: env({ GW_UPSTREAM_BASE: `http://127.0.0.1:${port}`, SERVER_THREADS: servers }),
        });
        await child.waitForOutput(WHOLE);
        const gateway = new URL(GATEWAY.exec(child.stdout)![1]!);
        const arrived = once(upstream, 'connection');
        // The kernel spreads the connections over the server threads.
        const clients = Array.from({ length: 8 }, () => {
          const client = connect(Number(gateway.port), gateway.hostname);
          client.on('error', () => {});
          client.write('GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n');
          return client;
        });
        const [socket] = await arrived;
        // Signals in quick succession count as one press of Ctrl-C, so the test sends several.
        await vi.waitUntil(() => !child.process.kill(signal) || !child.isRunning, {
          timeout: PATIENCE_MS,
          interval: 100,
        });
        expect(await child.ended).toMatchObject({ code: status, signal: null });
        for (const client of clients) client.destroy();
        socket.destroy();
      } finally {
        upstream.close();
      }
    },
  );
});
