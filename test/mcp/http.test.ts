/** `/mcp` used by a stranger, a web page, a broken client and another revision of the protocol, over real sockets. */

import { request as httpRequest, type OutgoingHttpHeaders } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli } from '../cli/child.ts';
import { McpService } from '../fixtures/mcp-service.ts';

const CAP = 100_000;
const BURST = 400;

let service: McpService;
beforeAll(async () => {
  service = await new McpService({
    FRONT_THREADS: '2',
    MAX_BODY_BYTES: String(CAP),
    CORS_ALLOWED_ORIGINS: 'https://app.example.com',
    RATE_LIMIT_PER_SEC: '1',
    RATE_LIMIT_BURST: String(BURST),
  }).start();
});
afterAll(() => service[Symbol.asyncDispose]());

interface Got {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
  body: any;
}

interface Sent {
  method?: string;
  path?: string;
  /** null: none. */
  key?: string | null;
  headers?: OutgoingHttpHeaders;
}

/** Sends a message on a new connection, which the kernel gives to one of the server threads. */
function send(body: unknown, { method = 'POST', path = '/mcp', key = service.key, headers = {} }: Sent = {}) {
  return new Promise<Got>((resolve, reject) => {
    const sent = httpRequest(`${service.api.url}${path}`, {
      method,
      agent: false,
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...headers,
      },
    });
    sent.on('response', (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = /^application\/json/.test(answer.headers['content-type'] ?? '');
        const parsed: unknown = isJson ? JSON.parse(text) : undefined;
        resolve({ status: answer.statusCode!, headers: answer.headers, text, body: parsed });
      });
      answer.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body));
  });
}

const message = (method: string, params: object = {}, id: unknown = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
});
const PING = message('ping');
const call = (name: string, input: object) => message('tools/call', { name, arguments: input });

describe('access to the MCP endpoint', () => {
  it.each([
    ['no key', null],
    ['a wrong key', 'svc_live_000000000000000000000000'],
    ['an empty key', ''],
  ])('is refused to %s, for any request', async (_, key) => {
    for (const asked of [
      PING,
      message('initialize'),
      message('tools/list'),
      call('recall_findings', {}),
      'no JSON',
    ]) {
      const { status, headers, body } = await send(asked, { key });
      expect(status).toBe(401);
      expect(headers['www-authenticate']).toBe('Bearer');
      expect(body).toEqual({ detail: expect.any(String) });
    }
  });

  it.each(['https://evil.example', 'null', 'http://127.0.0.1:1', 'https://app.example.com.evil.example'])(
    'is refused to a page of %s, even with a key',
    async (origin) => {
      const { status, headers, body } = await send(PING, { headers: { origin } });
      expect({ status, body }).toEqual({
        status: 403,
        body: { detail: 'This origin is not allowed: CORS_ALLOWED_ORIGINS must contain the origin' },
      });
      expect(headers['access-control-allow-origin']).toBeUndefined();
    },
  );

  it('is granted to a page of a listed origin, whose preflight says what it may send', async () => {
    const origin = 'https://app.example.com';
    const preflight = await send('', {
      method: 'OPTIONS',
      key: null,
      headers: { origin, 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers['access-control-allow-headers']).toContain('mcp-protocol-version');
    const { status, headers } = await send(PING, { headers: { origin } });
    expect(status).toBe(200);
    expect(headers['access-control-allow-origin']).toBe(origin);
  });

  it('is refused to a page under its own name (DNS rebinding)', async () => {
    const host = 'rebound.evil.example:8000';
    expect((await send(PING, { key: null, headers: { host } })).status).toBe(421);
    // A page under that name sends its origin with every POST, and would be refused even with a valid key.
    const origin = `http://${host}`;
    expect((await send(PING, { headers: { host, origin } })).status).toBe(403);
  });

  it('is granted to a person with a token, as far as the role permits', { tags: 'long' }, async () => {
    const post = async (path: string, token: string, body: object) => {
      const got = await send(body, { path, key: token });
      expect(got.status, `${path}: ${got.text}`).toBeLessThan(300);
      return got.body;
    };
    const tokenOf = async (email: string) =>
      (await runCli(['token', '--email', email], { DATA_DIR: service.api.dir })).stdout.trim();
    const [owner, guest] = await Promise.all(['ann@example.com', 'bob@example.com'].map(tokenOf));
    const { id } = await post('/organizations/', owner!, { name: 'Ann and guests' });
    const invited = await post(`/organizations/${id}/invite`, owner!, {
      email: 'bob@example.com',
      role: 'viewer',
    });
    await post(`/organizations/invitations/${invited.id}/accept`, guest!, {});
    const path = `/mcp?org_id=${id}`;
    const finding = { codebase_id: 'a', content: 'Tests need a database' };
    const written = await send(call('record_finding', finding), { path, key: owner! });
    expect(written.body.result.structuredContent.finding_id).toMatch(/^find_/);
    const refused = await send(call('record_finding', { ...finding, content: 'b' }), { path, key: guest! });
    expect(refused.body.result).toMatchObject({ isError: true });
    expect(refused.body.result.content[0].text).toContain('may not do that');
    const recalled = await send(call('recall_findings', { codebase_id: 'a', query: 'database' }), {
      path,
      key: guest!,
    });
    expect(recalled.body.result.structuredContent.findings).toMatchObject([{ content: finding.content }]);
    // A caller that names no organization, or a foreign one, is refused before the protocol begins.
    expect((await send(PING, { key: guest! })).status).toBe(422);
    expect((await send(PING, { key: guest!, path: '/mcp?org_id=acme' })).status).toBe(404);
  });
});

describe('a refused message', () => {
  it.each<[string, unknown, Sent, number, unknown]>([
    ['too large', 'x'.repeat(CAP + 1), {}, 413, { detail: expect.any(String) }],
    ['no JSON', '{"jsonrpc":', {}, 400, { detail: expect.stringContaining('not valid JSON') }],
    [
      'no UTF-8',
      Buffer.from([0x22, 0xff, 0x22]),
      {},
      400,
      { detail: expect.stringContaining('not valid UTF-8') },
    ],
    [
      'too deep',
      `${'['.repeat(3_000)}${']'.repeat(3_000)}`,
      {},
      400,
      { detail: expect.stringContaining('nested') },
    ],
    [
      'empty',
      '',
      {},
      400,
      { jsonrpc: '2.0', id: null, error: { code: -32_700, message: expect.any(String) } },
    ],
    [
      'a number',
      '7',
      {},
      400,
      { jsonrpc: '2.0', id: null, error: { code: -32_600, message: expect.any(String) } },
    ],
    [
      'of no method',
      { jsonrpc: '2.0', id: 1 },
      {},
      400,
      { jsonrpc: '2.0', id: null, error: { code: -32_600, message: expect.any(String) } },
    ],
    [
      'a batch',
      [PING, PING],
      {},
      400,
      { jsonrpc: '2.0', id: null, error: { code: -32_600, message: expect.stringContaining('batch') } },
    ],
    [
      'an empty batch',
      [],
      {},
      400,
      { jsonrpc: '2.0', id: null, error: { code: -32_600, message: expect.stringContaining('batch') } },
    ],
    ['compressed', PING, { headers: { 'content-encoding': 'gzip' } }, 415, { detail: expect.any(String) }],
    [
      'of another type',
      PING,
      { headers: { 'content-type': 'text/plain' } },
      415,
      expect.objectContaining({ jsonrpc: '2.0' }),
    ],
    ...['text/html', 'application/json;q=0, text/html', 'image/*'].map(
      (accept): [string, unknown, Sent, number, unknown] => [
        `for whom JSON is not acceptable: ${accept}`,
        PING,
        { headers: { accept } },
        406,
        expect.objectContaining({ jsonrpc: '2.0' }),
      ],
    ),
    [
      'of a revision from the future',
      PING,
      { headers: { 'mcp-protocol-version': '2099-01-01' } },
      400,
      expect.objectContaining({ jsonrpc: '2.0' }),
    ],
  ])('%s', async (_, body, sent, status, answer) => {
    const got = await send(body, sent);
    expect({ status: got.status, body: got.body }).toEqual({ status, body: answer });
  });

  it.each(['GET', 'DELETE', 'PUT', 'PATCH'])(
    'is one of the method %s, because there are no sessions',
    async (method) => {
      const { status, headers } = await send('', { method });
      expect(status).toBe(405);
      expect(headers.allow).toBe('POST');
    },
  );
});

describe('a message', () => {
  it.each([
    'application/json',
    '*/*',
    'application/*',
    'Application/JSON; charset=utf-8, text/plain',
    'text/html, */*;q=0.1',
  ])('is answered as JSON to a client that accepts %s', async (accept) => {
    for (const body of [
      PING,
      message('tools/list'),
      message('tools/call', { name: 'recall_findings', arguments: { codebase_id: 'a', query: 'q' } }),
    ]) {
      const got = await send(body, { headers: { accept } });
      expect([got.status, got.headers['content-type']]).toEqual([200, 'application/json']);
      expect(got.body).toMatchObject({ id: 1, result: expect.any(Object) });
    }
  });

  it.each([
    ['of an unknown method', message('tasks/run'), -32_601],
    ['for an unknown tool', call('drop_tables', {}), -32_602],
    ['for a tool with the name of a property', call('__proto__', {}), -32_602],
    ['for a tool that every object has', call('constructor', {}), -32_602],
    ['whose tool is no text', message('tools/call', { name: 7 }), -32_602],
    ['of a handshake without its parts', message('initialize'), -32_602],
  ])('%s is answered as an error', async (_, sent, code) => {
    const { status, body } = await send(sent);
    expect(status).toBe(200);
    expect(body).toMatchObject({ jsonrpc: '2.0', id: 1, error: { code } });
  });

  it('of each kind is served without a session, from any thread', async () => {
    const names = ['retrieve_patterns', 'recall_findings', 'record_finding', 'search_runs', 'read_run'];
    for (let connection = 0; connection < 8; connection++) {
      const { headers, body } = await send(message('tools/list', {}, 'an id'));
      expect(headers['mcp-session-id']).toBeUndefined();
      expect(body).toMatchObject({ id: 'an id', result: { tools: names.map((name) => ({ name })) } });
    }
    expect((await send(PING, { headers: { 'mcp-session-id': 'of another server' } })).body.result).toEqual(
      {},
    );
    const told = await send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    expect({ status: told.status, text: told.text }).toEqual({ status: 202, text: '' });
  });

  it('of a subscription is answered, and ends: there is nothing to subscribe to', async () => {
    const version = '2026-07-28';
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': version,
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const params = { notifications: { toolsListChanged: true }, _meta };
    const headers = { 'mcp-protocol-version': version, 'mcp-method': 'subscriptions/listen' };
    const got = await send(message('subscriptions/listen', params), { headers });
    expect(got.headers['content-type']).toMatch(/^text\/event-stream/);
    expect(got.text).toContain('"resultType":"complete"');
  });

  it('of one organization never gets the answer of another, many at once', async () => {
    const keys = { acme: service.key, other: service.other_key };
    const all = Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? 'acme' : 'other') as keyof typeof keys);
    const codebase_id = 'crowd';
    await Promise.all(
      all.map((org, at) =>
        send(call('record_finding', { codebase_id, content: `${org} knows ${at}` }), { key: keys[org] }),
      ),
    );
    const got = await Promise.all(
      all.map((org) =>
        send(call('recall_findings', { codebase_id, query: 'knows', top_k: 50 }), { key: keys[org] }),
      ),
    );
    for (const [at, { body }] of got.entries()) {
      const { findings } = body.result.structuredContent;
      expect(findings.length).toBeGreaterThan(0);
      for (const { content } of findings) expect(content).toMatch(new RegExp(`^${all[at]} `));
    }
  });

  it('counts as one request, and a request beyond the limit gets the time to retry', {
    tags: 'long',
  }, async () => {
    const key = await service.makeKey('busy');
    const ask = () => send(call('recall_findings', { codebase_id: 'a', query: 'q' }), { key });
    let served = 0;
    let refused: Got | undefined;
    // One token comes back each second, and any machine is faster.
    while (refused === undefined) {
      const answers = await Promise.all(Array.from({ length: 50 }, ask));
      refused = answers.find(({ status }) => status !== 200);
      served += answers.filter(({ status }) => status === 200).length;
    }
    expect(served).toBeGreaterThanOrEqual(BURST);
    expect({ status: refused.status, body: refused.body }).toEqual({
      status: 429,
      body: { detail: 'Too many requests' },
    });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
  });
});
