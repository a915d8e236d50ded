/** The API of a process with two server threads: behaviour that only a real server shows. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../src/auth/api-key.ts';
import { loadEmbeddedSecret } from '../../src/auth/embedded-secret.ts';
import { loadConfig, raiseParserHeadLimit } from '../../src/config.ts';
import type { RunningUnderstudy } from '../../src/main.ts';
import { TableAccounts } from '../../src/storage/accounts/table-accounts.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';

const STATIC = 'a-static-key';
const CAP = 10_000;
/** The burst of a key: large enough for the other tests, and small enough to be exceeded. */
const BURST = 60;
const RUNS = '/v1/monitor/runs';

let folder: string;
let running: RunningUnderstudy;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-server-'));
  raiseParserHeadLimit();
  const { startUnderstudy } = await import('../../src/main.ts');
  const env = {
    DATA_DIR: folder,
    PORT: '0',
    SERVER_THREADS: '2',
    SVC_KEYS: `${STATIC},busy-key,other-key`,
    AUTH_DB_URL: 'embedded:',
    MAX_BODY_BYTES: String(CAP),
    RATE_LIMIT_PER_SEC: '1',
    RATE_LIMIT_BURST: String(BURST),
    CORS_ALLOWED_ORIGINS: 'https://app.example.com',
    ALLOWED_HOSTS: 'named.example.com',
    LOG_LEVEL: 'silent',
  };
  running = await startUnderstudy(loadConfig({ listener: 'api' }, env), { api: true, gateway: false });
});
afterAll(async () => {
  await running.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Got {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

/** Sends a request on a new connection. The kernel spreads connections over the threads. */
function send(
  method: string,
  path: string,
  options: {
    key?: string | null;
    body?: string | Buffer;
    headers?: Record<string, string>;
    agent?: Agent;
  } = {},
): Promise<Got> {
  const { key = STATIC, body, headers = {}, agent } = options;
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      `${running.api_url}${path}`,
      {
        method,
        agent: agent ?? false,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
      },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('end', () =>
          resolve({
            status: answer.statusCode!,
            headers: answer.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
        answer.on('error', reject);
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}

const startRun = (run_id: string, key: string, query = '') =>
  send('POST', `${RUNS}${query}`, { key, body: JSON.stringify({ run_id }) });

describe('the check of the host name', () => {
  const HOST = { host: 'rebound.example.com' };

  it.each([
    '/',
    '/dashboard/config.json',
    '/docs',
    '/openapi.json',
    '/metrics',
    '/auth/me',
    '/auth/bootstrap',
  ])('refuses GET %s without a credential under a foreign name with 421', async (path) => {
    const answer = await send('GET', path, { key: null, headers: HOST });
    expect(answer.status).toBe(421);
    expect(JSON.parse(answer.text)).toEqual({ detail: expect.stringContaining('ALLOWED_HOSTS') });
    expect((await send('GET', path, { key: null, headers: { host: 'understudy:8000' } })).status).not.toBe(
      421,
    );
    expect((await send('GET', path, { key: null, headers: { host: 'named.example.com' } })).status).not.toBe(
      421,
    );
  });

  it.each(['/', '/dashboard/config.json', '/docs', '/openapi.json', '/docs/guides'])(
    'refuses GET %s under a foreign name with 421, whatever the credential, because the page checks none',
    async (path) => {
      for (const key of ['wrong', STATIC])
        expect((await send('GET', path, { key, headers: HOST })).status).toBe(421);
      expect((await send('GET', path, { key: 'wrong', headers: { host: 'localhost' } })).status).not.toBe(
        421,
      );
    },
  );

  it('leaves out probes, requests with a credential, and pages of allowed origins', async () => {
    for (const path of ['/health', '/ready']) {
      expect((await send('GET', path, { key: null, headers: HOST })).status).toBe(200);
    }
    expect((await startRun('host-names', STATIC)).status).toBe(200);
    const body = JSON.stringify({ run_id: 'host-names-2' });
    expect((await send('POST', RUNS, { body, headers: HOST })).status).toBe(200);
    expect((await send('GET', '/metrics', { headers: HOST })).status).toBe(200);
    // A request with a wrong key is refused with 401.
    expect((await send('GET', '/metrics', { key: 'wrong', headers: HOST })).status).toBe(401);
    const preflight = { ...HOST, origin: 'https://app.example.com', 'access-control-request-method': 'POST' };
    expect((await send('OPTIONS', RUNS, { key: null, headers: preflight })).status).toBe(204);
    // A signed request is checked by its signature instead.
    expect(
      (await send('POST', '/billing/webhook', { key: null, body: '{}', headers: HOST })).status,
    ).not.toBe(421);
  });
});

describe('credentials', () => {
  it('give access from their creation on, and to their own organization only', async () => {
    const { raw, ...made } = makeApiKey('test');
    const tables = new LmdbTables(join(folder, 'main.mdb'), 'disk');
    const record = {
      id: 'key_server',
      org_id: 'acme',
      project_id: null,
      name: 'ci',
      created_by: null,
      created_at: '2026-01-01T00:00:00.000Z',
      expires_at: null,
      revoked_at: null,
      ...made,
    };
    expect((await startRun('k', raw)).status).toBe(401);
    await new TableAccounts(tables).transact(({ keys }) => keys.insert(record));
    expect((await startRun('k', raw)).status).toBe(200);
    const finish = (key: string, org_id?: string) =>
      send('POST', `${RUNS}/k/finish`, { key, body: JSON.stringify({ outcome: 'success', org_id }) });
    expect((await finish(STATIC)).status).toBe(404);
    expect((await finish(STATIC, 'other')).status).toBe(404);
    expect((await finish(STATIC, 'acme')).status).toBe(200);
    await tables.close();
  });

  it('in the form of a JWT of the embedded secret belong to a user without an organization', async () => {
    const token = await new SignJWT({ sub: 'u' })
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('1h')
      .sign(Buffer.from(loadEmbeddedSecret(folder), 'utf8'));
    expect((await startRun('j', token, '?org_id=acme')).status).toBe(404);
    expect(JSON.parse((await startRun('j', token)).text).detail[0]).toMatchObject({
      type: 'missing',
      loc: ['query', 'org_id'],
    });
    expect((await startRun('j', `${token}x`, '?org_id=acme')).status).toBe(401);
  });
});

describe('bodies', () => {
  const padded = (bytes: number) =>
    JSON.stringify({ run_id: 'r', pad: '' }).replace('""', `"${'x'.repeat(bytes)}"`);
  const frame = padded(0).length;

  it('are accepted at the cap, and refused with 413 one byte beyond it, with a key and without one', async () => {
    expect((await send('POST', RUNS, { body: padded(CAP - frame) })).status).toBe(200);
    for (const key of [STATIC, null]) {
      const refused = await send('POST', RUNS, { key, body: padded(CAP - frame + 1) });
      expect(refused).toMatchObject({ status: 413, text: '{"detail":"The request body is too large"}' });
      expect(refused.headers['x-request-id']).toBeDefined();
    }
  });

  it('beyond the cap are read for a while so that the client sees the answer; the connection stays open', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const post = (bytes: number) => send('POST', RUNS, { body: padded(bytes), agent });
    expect((await post(8_000_000)).status).toBe(413);
    expect((await post(10)).status).toBe(200);
    agent.destroy();
    // Far above the cap, the connection is closed before the whole body is sent.
    const sent = httpRequest(`${running.api_url}${RUNS}`, {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${STATIC}`, 'content-length': 1_000_000_000 },
    });
    sent.on('error', () => {});
    sent.flushHeaders();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(413);
    answer.resume();
    await once(answer.socket, 'close');
    expect((await send('GET', '/health', { key: null })).status).toBe(200);
  });

  it('in chunks beyond the cap are also refused with 413, with the headers that a page needs to read the answer', async () => {
    const refused = await send('POST', RUNS, {
      body: padded(CAP),
      headers: { 'transfer-encoding': 'chunked', origin: 'https://app.example.com' },
    });
    expect(refused.status).toBe(413);
    expect(refused.headers['access-control-allow-origin']).toBe('https://app.example.com');
  });
});

describe('a client that waits for 100 Continue', () => {
  const expecting = (length: number) => {
    const sent = httpRequest(`${running.api_url}${RUNS}`, {
      method: 'POST',
      agent: false,
      headers: {
        authorization: `Bearer ${STATIC}`,
        'content-type': 'application/json',
        'content-length': length,
        expect: '100-continue',
      },
    });
    sent.flushHeaders();
    return sent;
  };

  it('receives it, and the answer', async () => {
    const body = '{"run_id":"patient"}';
    const sent = expecting(body.length);
    await once(sent, 'continue');
    sent.end(body);
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(200);
    answer.resume();
    await once(answer, 'end');
  });

  it('is refused before it sends too much', async () => {
    const sent = expecting(CAP + 1);
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(413);
    sent.destroy();
  });
});

describe('the rate limit', () => {
  it('is shared by both threads, exact to the request', async () => {
    const answers = await Promise.all(
      Array.from({ length: BURST + 20 }, () => send('GET', '/v1/monitor/unknown-runs', { key: 'busy-key' })),
    );
    // Requests without a route are not counted.
    expect(answers.every(({ status }) => status === 404)).toBe(true);
    const startedMs = performance.now();
    const counted = await Promise.all(
      Array.from({ length: 3 * BURST }, () => send('POST', RUNS, { key: 'busy-key', body: '{' })),
    );
    // One request becomes free each second. On a busy machine, a few may become free during the requests.
    const backAtMost = Math.ceil((performance.now() - startedMs) / 1000);
    const refused = counted.filter(({ status }) => status === 429);
    const passed = counted.filter(({ status }) => status === 400).length;
    expect(passed + refused.length).toBe(3 * BURST);
    expect(passed).toBeGreaterThanOrEqual(BURST);
    expect(passed).toBeLessThanOrEqual(BURST + backAtMost);
    expect(refused[0]!.headers).toMatchObject({
      'retry-after': '1',
      ratelimit: expect.stringMatching(/^"default";r=0;t=\d+$/),
      'ratelimit-policy': `"default";q=${BURST};w=${BURST}`,
    });
    expect((await send('POST', RUNS, { key: 'other-key', body: '{' })).status).toBe(400);
  });
});

describe('the service routes', () => {
  it('include both threads in /metrics, for the operator only', async () => {
    const healthCount = (metrics: string) => {
      const line = /understudy_http_requests_total\{route="health",method="GET",status="200"\} (\d+)/.exec(
        metrics,
      );
      return Number(line?.[1] ?? 0);
    };
    const before = healthCount((await send('GET', '/metrics', { key: null })).text);
    for (let at = 0; at < 10; at++) await send('GET', '/health', { key: null });
    const { status, headers, text } = await send('GET', '/metrics', { key: null });
    expect(status).toBe(200);
    expect(headers['content-type']).toContain('text/plain');
    expect(healthCount(text)).toBe(before + 10);
    for (const name of [
      'understudy_http_request_duration_seconds_bucket{le="0.005",route="health"} ',
      'understudy_http_requests_total{route="startRun",method="POST",status="429"} ',
      'understudy_actors_handled_total{kind="rate-slots",thread="0"} ',
      'process_resident_memory_bytes ',
      'understudy_info{version="',
    ]) {
      expect(text).toContain(name);
    }
    const passedOn = { 'x-forwarded-for': '203.0.113.7' };
    expect((await send('GET', '/metrics', { key: null, headers: passedOn })).status).toBe(401);
    expect((await send('GET', '/metrics', { key: null, headers: { host: 'evil.example' } })).status).toBe(
      421,
    );
    expect((await send('GET', '/metrics', { headers: passedOn })).status).toBe(200);
  });

  it('answer HEAD without a body, and OPTIONS for the listed origins only', async () => {
    const head = await send('HEAD', '/health', { key: null });
    expect(head).toMatchObject({ status: 200, text: '' });
    const preflight = { origin: 'https://app.example.com', 'access-control-request-method': 'POST' };
    const allowed = await send('OPTIONS', RUNS, { key: null, headers: preflight });
    expect(allowed).toMatchObject({ status: 204, text: '' });
    expect(allowed.headers).toMatchObject({
      'access-control-allow-origin': 'https://app.example.com',
      vary: 'Origin',
    });
    const evil = { ...preflight, origin: 'https://evil.example' };
    const refused = await send('OPTIONS', RUNS, { key: null, headers: evil });
    expect(refused.headers).not.toHaveProperty('access-control-allow-origin');
  });

  it('are ready', async () => {
    expect((await send('GET', '/ready', { key: null })).status).toBe(200);
  });
});
