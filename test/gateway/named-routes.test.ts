/** Upstreams with separate prefixes (GW_ROUTES), through a real process: where requests go, and with which headers. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliChild } from '../cli/child.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush } from '../fixtures/capture-gateway.ts';
import { type RawAnswer, rawRequest } from '../fixtures/raw-client.ts';
import { headerValue, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

const SECRET = 'an-operators-key-0123456789';
const folder = mkdtempSync(join(tmpdir(), 'understudy-routes-'));
const db = join(folder, 'capture.mdb');
let upstream: RawUpstream;
let child: CliChild;
/** Requests that reached the upstream. */
let reached = 0;
let url: string;

beforeAll(async () => {
  upstream = await startRawUpstream({
    // The upstream returns what it was sent, including credentials.
    onRequest: async (connection, request) => {
      reached++;
      const body = JSON.stringify({
        line: request.start_line,
        headers: request.headers,
        ...{ type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn', content: [] },
      });
      await connection.write(
        messageBytes(
          'HTTP/1.1 200 OK',
          [['x-echo', headerValue(request, 'authorization') ?? '']],
          Buffer.from(body),
        ),
      );
    },
  });
  upstream.keep_requests = false;
  const routes = join(folder, 'routes.json');
  writeFileSync(
    routes,
    JSON.stringify({
      '/local': { base: `${upstream.url}/inner`, provider: 'local' },
      '/local/deeper': { base: `${upstream.url}/deeper` },
      '/cloud/{region}': { base: `${upstream.url}/{region}`, provider: 'cloud' },
      '/shared': {
        base: upstream.url,
        provider: 'shared',
        headers: { Authorization: `Bearer ${SECRET}`, 'x-team': 'blue' },
      },
    }),
  );
  child = new CliChild(['gateway', '--port', '0', '--db', db], {
    env: { GW_UPSTREAM_BASE: upstream.url, GW_ROUTES: routes, DATA_DIR: folder },
  });
  [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
});
afterAll(async () => {
  await child[Symbol.asyncDispose]();
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Seen {
  line: string;
  headers: [string, string][];
}

const HANDSHAKE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'sec-websocket-version': '13',
};

/** Sends a request with any headers, also those that a browser may send but no client library. */
function ask(path: string, method: string, headers: Record<string, string>): Promise<RawAnswer> {
  const all = {
    host: new URL(url).host,
    ...(method === 'POST' ? { 'content-length': '2' } : {}),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const body = method === 'POST' ? '{}' : '';
  return rawRequest(Number(new URL(url).port), `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
}

async function send(path: string, headers: Record<string, string> = {}): Promise<Seen> {
  const answer = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'hello' }] }),
  });
  expect(answer.status, path).toBe(200);
  return (await answer.json()) as Seen;
}

describe('a prefix', () => {
  it('leads to its base if whole segments match, the longest prefix first; other paths go to the default', async () => {
    for (const [path, target] of [
      ['/local/v1/chat/completions?a=b', '/inner/v1/chat/completions?a=b'],
      ['/local', '/inner/'],
      ['/locale/v1/messages', '/locale/v1/messages'],
      ['/local/deeper/v1/messages', '/deeper/v1/messages'],
      ['/cloud/europe-west4/v1/x:rawPredict', '/europe-west4/v1/x:rawPredict'],
      ['/cloud/global/v1', '/global/v1'],
      ['/%6cocal/v1/messages', '/%6cocal/v1/messages'],
      ['/v1/messages', '/v1/messages'],
    ]) {
      expect((await send(path!)).line).toBe(`POST ${target} HTTP/1.1`);
    }
  });

  it('accepts only a valid region', async () => {
    for (const region of ['', 'EU', 'a..b', 'evil.example', '%2e', '-x', `a-${'b'.repeat(100)}`]) {
      const answer = await fetch(`${url}/cloud/${region}/v1/messages`, { method: 'POST', body: '{}' });
      expect(answer.status, region).toBe(400);
      expect(await answer.text()).toContain('must follow the prefix: /cloud/{region}/');
    }
    const own = await fetch(`${url}/bedrock/EU/model/x/converse`, { method: 'POST', body: '{}' });
    expect(await own.text()).toContain('must follow the prefix: /bedrock/{region}/');
  });

  describe('a prefix that adds a credential', () => {
    const POST = 'POST';
    it.each<[string, string, Record<string, string>, number]>([
      [
        'a simple POST of a page',
        POST,
        { origin: 'https://evil.example', 'content-type': 'text/plain' },
        403,
      ],
      [
        'a form of a page',
        POST,
        { origin: 'https://evil.example', 'content-type': 'multipart/form-data' },
        403,
      ],
      ['a page without a name', POST, { origin: 'null' }, 403],
      ['a page of an old browser on this machine', POST, { origin: 'http://localhost:3000' }, 403],
      ['a page that says only where it stands', POST, { 'sec-fetch-site': 'cross-site' }, 403],
      ['a page of a neighbour port', 'GET', { 'sec-fetch-site': 'same-site' }, 403],
      ['an image of a page', 'GET', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }, 403],
      ['a fetch of a page', 'GET', { origin: 'https://evil.example' }, 403],
      [
        'a preflight',
        'OPTIONS',
        { origin: 'https://evil.example', 'access-control-request-method': POST },
        403,
      ],
      ['other methods of a page', 'DELETE', { origin: 'https://evil.example' }, 403],
      ['a page by DNS rebinding', POST, { host: 'evil.example' }, 421],
      ['the same, with its own origin', 'GET', { host: 'evil.example', origin: 'http://evil.example' }, 421],
      ['a WebSocket of a page', 'GET', { ...HANDSHAKE, origin: 'https://evil.example' }, 403],
      ['a WebSocket by DNS rebinding', 'GET', { ...HANDSHAKE, host: 'evil.example:80' }, 421],
      ['an agent', POST, {}, 200],
      ['an agent under a name of the network', POST, { host: 'understudy:8787' }, 200],
      ['a person who typed the address', 'GET', { 'sec-fetch-site': 'none' }, 200],
    ])('refuses %s (%s) with 403, or forwards it', async (_who, method, headers, status) => {
      const before = reached;
      for (const path of ['/shared/v1/messages', '/shared', '/shared?x=/__gw/']) {
        const answer = await ask(path, method, headers);
        expect(answer.status, path).toBe(status);
        if (status !== 200) expect(answer.body.toString()).not.toContain(SECRET);
      }
      expect(reached - before).toBe(status === 200 ? 3 : 0);
    });

    it('refuses what a prefix without a credential forwards, such as requests of pages', async () => {
      const answer = await ask('/local/v1/messages', POST, {
        host: 'any.example',
        origin: 'https://a.example',
      });
      expect(answer.status).toBe(200);
    });
  });

  it('replaces the client’s headers by its own, and does not show them', async () => {
    const seen = await send('/shared/v1/messages', {
      authorization: 'Bearer the-clients-own-key',
      'x-kept': 'yes',
    });
    const named = (name: string) => seen.headers.filter(([at]) => at === name).map(([, value]) => value);
    expect(named('authorization')).toEqual([`Bearer ${SECRET}`]);
    expect(named('x-team')).toEqual(['blue']);
    expect(named('x-kept')).toEqual(['yes']);
    const { routes } = (await (await fetch(`${url}/__gw/routes`)).json()) as { routes: { prefix: string }[] };
    expect(routes.map(({ prefix }) => prefix)).toEqual([
      '/local/deeper',
      '/shared',
      '/local',
      '/cloud/{region}',
      '/gemini',
      '/bedrock/{region}',
      '/',
    ]);
    expect(routes[1]).toEqual({
      prefix: '/shared',
      provider: 'shared',
      upstream: upstream.url,
      adds_headers: ['authorization', 'x-team'],
    });
  });

  it('is captured under its label, with its wire format, and without its secret', async () => {
    await flush(url);
    const stored = await readCaptured(db);
    const told = stored.map(({ record: { provider, path, kind } }) => [path, provider, kind]);
    expect(told).toContainEqual(['/local/v1/chat/completions', 'local', 'turn']);
    expect(told).toContainEqual(['/local/deeper/v1/messages', 'local.deeper', 'turn']);
    expect(told).toContainEqual(['/shared/v1/messages', 'shared', 'turn']);
    expect(told).toContainEqual(['/v1/messages', 'anthropic', 'turn']);
    for (const { request, response } of stored) expect(`${request}${response}`).not.toContain(SECRET);
    for (const name of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!name.isFile() || name.name === 'routes.json') continue;
      expect(readFileSync(join(name.parentPath, name.name)).includes(SECRET), name.name).toBe(false);
    }
    expect(`${child.stdout}${child.stderr}`).not.toContain(SECRET);
  });
});

it('a faulty route is refused at the start with what is wrong, and without its value', async () => {
  await using refused = new CliChild(['gateway', '--port', '0'], {
    env: { DATA_DIR: folder, GW_ROUTES: `{"/a": {"preset": "unheard-of", "headers": {"x": "${SECRET}"}}}` },
  });
  const { code, stderr } = await refused.ended;
  expect(code).toBe(78);
  expect(stderr).toContain('GW_ROUTES=(not shown): "/a": the preset is unknown');
  expect(stderr).not.toContain(SECRET);
});
