/** What arrives is what was sent: raw sockets on both sides of the gateway, every byte compared. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { raiseParserHeadLimit } from '../../src/config.ts';
import { ADMIN_ROUTES } from '../../src/gateway/admin.ts';
import { loadServer } from '../../src/http/server.ts';
import { startTestGateway, type TestGateway } from '../fixtures/gateway.ts';
import { openRawClient, rawRequest } from '../fixtures/raw-client.ts';
import { chunkBytes, headerValue, lastChunkBytes, messageBytes } from '../fixtures/raw-message.ts';
import {
  type RawUpstream,
  startRawUpstream,
  UNREACHABLE,
  type UpstreamConnection,
} from '../fixtures/raw-upstream.ts';

raiseParserHeadLimit();
/** node:http is stricter with targets and methods, and skips chunk extensions (test/http/plain-listener.test.ts). */
const isPlain = (await loadServer()) === 'node';

let upstream: RawUpstream;
let gateway: TestGateway;

beforeAll(async () => {
  upstream = await startRawUpstream({});
  gateway = await startTestGateway(upstream.url);
});
afterAll(async () => {
  await gateway.close();
  await upstream.close();
});
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.errors.length = 0;
  upstream.script = { onRequest: (connection) => connection.write(OK) };
});

const OK = messageBytes('HTTP/1.1 200 OK', [], Buffer.from('ok'));
const request = (target: string, headers: [string, string][] = [], method = 'GET') =>
  messageBytes(`${method} ${target} HTTP/1.1`, [['host', 'gw'], ...headers], undefined, { framing: 'none' });

/** Headers that the contract leaves to each hop, and headers that the gateway's server or client moves or writes. */
const OWN = new Set(['host', 'connection', 'date', 'content-length', 'transfer-encoding', 'keep-alive']);
const endToEnd = (headers: readonly (readonly [string, string])[], lower = false) =>
  headers
    .filter(([name]) => !OWN.has(name.toLowerCase()))
    .map(([name, value]) => [lower ? name.toLowerCase() : name, value]);

describe('the upstream receives', () => {
  it.each([
    '/a%20b//../c/%2e%2E/;x?x=1&y=%zz&x=2',
    '/a?',
    '/a',
    '/',
    '/?',
    '/a?b?c#d',
    "/!$&'()*+,;=:@-._~",
    `/${'p'.repeat(8_000)}?${'q'.repeat(8_000)}`,
    '/%5F_gw/stats',
    '/%5f%5fgw/stats',
    '/x/../__gw/stats',
    '/geminix/a',
    ...(isPlain ? [] : ['/v1/caf\xc3\xa9?n=\xc3\xa9']),
  ])('target %s', async (target) => {
    await rawRequest(gateway.port, request(target));
    expect(upstream.requests[0]!.start_line).toBe(`GET ${target} HTTP/1.1`);
  });

  it.each([
    'GET',
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'PURGE',
    'M-SEARCH',
    ...(isPlain ? [] : ['get']),
    'PROPFIND',
  ])('method %s', async (method) => {
    await rawRequest(gateway.port, request('/m', [], method));
    expect(upstream.requests[0]!.start_line).toBe(`${method} /m HTTP/1.1`);
  });

  it('the headers in order, with duplicates, byte for byte', async () => {
    const headers: [string, string][] = [
      ['Authorization', 'Bearer secret'],
      ['X-Dup', '1'],
      ['Accept', '*/*'],
      ['x-dup', '2'],
      ['X-Empty', ''],
      ['Cookie', 'a=1; b=2'],
      ['Cookie', 'c=3'],
      ['X-Utf8', 'a\xc3\xa9z'],
      ['X-Latin1', 'a\xe9z'],
      ['X-Inner', 'a  \t b'],
      ['X-Long', 'l'.repeat(30_000)],
      ['Origin', 'https://example.com'],
      ['Accept-Encoding', 'gzip, br'],
      ['Range', 'bytes=0-1'],
    ];
    await rawRequest(gateway.port, request('/h', headers));
    expect(endToEnd(upstream.requests[0]!.headers)).toEqual(endToEnd(headers, true));
    expect(headerValue(upstream.requests[0]!, 'host')).toBe(`127.0.0.1:${upstream.port}`);
  });

  it('no hop-by-hop headers, no headers that Connection names, no run headers, and nothing added', async () => {
    const headers: [string, string][] = [
      ['Connection', 'close, X-Named'],
      ['X-Named', '1'],
      ['Keep-Alive', 'timeout=5'],
      ['TE', 'trailers'],
      ['Upgrade', 'h2c'],
      ['Proxy-Connection', 'keep-alive'],
      ['X-Svc-Run', 'run-1'],
      ['X-Svc-Seq', '3'],
      ['X-Kept', '1'],
    ];
    await rawRequest(gateway.port, request('/hop', headers));
    expect(endToEnd(upstream.requests[0]!.headers)).toEqual([['x-kept', '1']]);
  });

  it.each([1, 3, 70_000, 1_500_000])('a body of %i bytes with its length', async (size) => {
    const body = randomBytes(size);
    const bytes = messageBytes('POST /b HTTP/1.1', [['host', 'gw']], body);
    await rawRequest(gateway.port, size > 100_000 ? [bytes.subarray(0, 777), bytes.subarray(777)] : bytes);
    expect(upstream.requests[0]!.framing).toBe('length');
    expect(upstream.requests[0]!.body.equals(body)).toBe(true);
  });

  it('a chunked body in chunks', async () => {
    const body = randomBytes(200_000);
    const bytes = messageBytes('POST /b HTTP/1.1', [['host', 'gw']], body, {
      framing: 'chunked',
      chunk_sizes: [1, 17, 40_000, 5],
    });
    await rawRequest(gateway.port, bytes);
    expect(upstream.requests[0]!.framing).toBe('chunked');
    expect(upstream.requests[0]!.body.equals(body)).toBe(true);
  });

  it('the same body if the request arrives byte by byte', async () => {
    const bytes = messageBytes(
      'POST /every?byte HTTP/1.1',
      [
        ['host', 'gw'],
        ['x-a', 'b'],
      ],
      Buffer.from('0123456789'),
    );
    await rawRequest(
      gateway.port,
      [...bytes].map((byte) => Uint8Array.of(byte)),
    );
    expect(upstream.requests[0]!.body.toString()).toBe('0123456789');
  });

  it('the beginning of a body before its end has arrived', async () => {
    const client = await openRawClient(gateway.port);
    const before = upstream.connections.length;
    const arrived = Promise.withResolvers<void>();
    upstream.script.onHead = async (c) => {
      await c.waitForMatch(/first$/);
      arrived.resolve();
    };
    await client.write('POST /slow HTTP/1.1\r\nhost: gw\r\ncontent-length: 10\r\n\r\nfirst');
    await arrived.promise;
    await client.write('secnd');
    const answer = await client.readAnswer();
    expect(answer.status).toBe(200);
    expect(upstream.requests.at(-1)!.body.toString()).toBe('firstsecnd');
    expect(upstream.connections.length - before).toBeLessThanOrEqual(1);
    client.socket.destroy();
  });
});

describe('the client receives', () => {
  it('status, reason, and headers in order with duplicates, names as written', async () => {
    const headers: [string, string][] = [
      ['Server', 'x'],
      ['Set-Cookie', 'a=1'],
      ['X-Weird', 'a\xe9\xc3\xa9'],
      ['set-cookie', 'b=2'],
      ['X-Empty', ''],
      ['content-encoding', 'gzip'],
      ['anthropic-ratelimit-requests-remaining', '9'],
    ];
    upstream.script.onRequest = (c) =>
      c.write(messageBytes('HTTP/1.1 299 Quite Fine', headers, Buffer.from('\0\xff')));
    const answer = await rawRequest(gateway.port, request('/'));
    expect(answer.start_line).toBe('HTTP/1.1 299 Quite Fine');
    expect(endToEnd(answer.headers)).toEqual(headers);
    expect(headerValue(answer, 'content-length')).toBe('3');
    expect(answer.headers.filter(([name]) => name.toLowerCase() === 'date')).toHaveLength(1);
    expect(headerValue(answer, 'uwebsockets')).toBeNull();
  });

  it.each([0, 1, 65_536, 3_000_000])('a body of %i bytes with its length', async (size) => {
    const body = randomBytes(size);
    upstream.script.onRequest = (c) => c.write(messageBytes('HTTP/1.1 200 OK', [], body));
    const answer = await rawRequest(gateway.port, request('/'));
    expect(answer.framing).toBe('length');
    expect(answer.body.equals(body)).toBe(true);
  });

  it.each([0, 1, 2_000_000])('a chunked body of %i bytes', async (size) => {
    const body = randomBytes(size);
    upstream.script.onRequest = (c) =>
      c.write(
        messageBytes('HTTP/1.1 200 OK', [['x-a', 'b']], body, {
          framing: 'chunked',
          chunk_sizes: [9, 70_000],
        }),
      );
    const answer = await rawRequest(gateway.port, request('/'));
    expect(answer.framing).toBe('chunked');
    expect(answer.complete).toBe(true);
    expect(answer.body.equals(body)).toBe(true);
  });

  it('a body that ends with the connection', async () => {
    upstream.script.onRequest = async (c) => {
      await c.write('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end');
      c.halfClose();
    };
    const answer = await rawRequest(gateway.port, request('/'));
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toBe('until the end');
  });

  it('each frame of a stream before the next one is sent', async () => {
    const client = await openRawClient(gateway.port);
    let next = Promise.withResolvers<void>();
    upstream.script.onRequest = async (c) => {
      await c.write(
        'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n',
      );
      for (let i = 0; i < 10; i++) {
        await c.write(chunkBytes(Buffer.from(`data: ${i}\n\n`)));
        await next.promise;
        next = Promise.withResolvers();
      }
      await c.write(lastChunkBytes());
    };
    await client.write(request('/stream'));
    for (let i = 0; i < 10; i++) {
      await client.waitForMatch(new RegExp(`data: ${i}\n\n`));
      next.resolve();
    }
    const answer = await client.readAnswer();
    expect(answer.chunk_sizes).toHaveLength(10);
    client.socket.destroy();
  });

  it('the head of an answer with a length before its body', async () => {
    const client = await openRawClient(gateway.port);
    const seen = Promise.withResolvers<void>();
    upstream.script.onRequest = async (c) => {
      await c.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n');
      await seen.promise;
      await c.write('late');
    };
    await client.write(request('/'));
    await client.waitForMatch(/Content-Length: 4\r\n\r\n/);
    seen.resolve();
    expect((await client.readAnswer()).body.toString()).toBe('late');
    client.socket.destroy();
  });

  it.each([
    ['a length', [['content-length', '1234']], 'content-length', '1234'],
    ['chunked', [['transfer-encoding', 'chunked']], 'transfer-encoding', 'chunked'],
    ['neither', [], 'content-length', null],
  ] as const)('only the head for HEAD with %s', async (_name, headers, name, value) => {
    upstream.script.onRequest = (c) =>
      c.write(messageBytes('HTTP/1.1 200 OK', headers, undefined, { framing: 'none' }));
    const client = await openRawClient(gateway.port);
    client.expectNoBody();
    await client.write(request('/', [], 'HEAD'));
    const answer = await client.readAnswer();
    expect(headerValue(answer, name)).toBe(value);
    // The connection is intact, because the next answer on it can be read.
    upstream.script.onRequest = (c) => c.write(OK);
    await client.write(request('/next'));
    expect((await client.readAnswer()).body.toString()).toBe('ok');
    client.socket.destroy();
  });

  it.each([
    ['204 No Content', []],
    ['304 Not Modified', [['etag', '"x"']]],
    ['304 Not Modified', [['content-length', '77']]],
  ] as const)('no body for %s %j', async (status, headers) => {
    upstream.script.onRequest = (c) =>
      c.write(messageBytes(`HTTP/1.1 ${status}`, headers, undefined, { framing: 'none' }));
    const client = await openRawClient(gateway.port);
    client.expectNoBody();
    await client.write(request('/'));
    const answer = await client.readAnswer();
    expect(answer.start_line).toBe(`HTTP/1.1 ${status}`);
    const wanted = headers.map(([name, value]) => [name, value]);
    expect(answer.headers.filter(([n]) => n !== 'Date').map(([n, v]) => [n.toLowerCase(), v])).toEqual(
      wanted,
    );
    // The connection is intact, because the next answer on it can be read.
    upstream.script.onRequest = (c) => c.write(OK);
    await client.write(request('/next'));
    expect((await client.readAnswer()).body.toString()).toBe('ok');
    client.socket.destroy();
  });

  it('informational answers, in order, before the final one', async () => {
    upstream.script.onRequest = async (c) => {
      await c.write('HTTP/1.1 103 Early Hints\r\nlink: <a>\r\nlink: <b>\r\n\r\n');
      await c.write('HTTP/1.1 102 Processing\r\nx-step: 2\r\n\r\n');
      await c.write('HTTP/1.1 102 Still Processing\r\n\r\n');
      await c.write('HTTP/1.1 103 Early Hints\r\n\r\n');
      await c.write(OK);
    };
    const answer = await rawRequest(gateway.port, request('/'));
    expect(answer.informational.map((m) => m.start_line)).toEqual([
      'HTTP/1.1 103 Early Hints',
      'HTTP/1.1 102 Processing',
      'HTTP/1.1 102 Still Processing',
      'HTTP/1.1 103 Early Hints',
    ]);
    expect(answer.informational.slice(2).flatMap(({ headers }) => endToEnd(headers))).toEqual([]);
    expect(answer.informational[0]!.headers).toEqual([
      ['link', '<a>'],
      ['link', '<b>'],
    ]);
    expect(answer.start_line).toBe('HTTP/1.1 200 OK');
    expect(answer.body.toString()).toBe('ok');
  });

  it('trailers, after which the connection is closed', async () => {
    upstream.script.onRequest = (c) =>
      c.write(
        messageBytes('HTTP/1.1 200 OK', [['trailer', 'x-sum']], Buffer.from('body'), {
          framing: 'chunked',
          trailers: [
            ['x-sum', 'abc'],
            ['x-more', 'd'],
          ],
        }),
      );
    const answer = await rawRequest(gateway.port, request('/'), { until: 'closed' });
    expect(answer.body.toString()).toBe('body');
    expect(answer.trailers).toEqual([
      ['x-sum', 'abc'],
      ['x-more', 'd'],
    ]);
    expect(headerValue(answer, 'trailer')).toBe('x-sum');
    expect(answer.closed_how).toBe('fin');
  });

  it.each([
    ['an empty chunked answer', ''],
    ['a chunked answer of trailers alone', 'x-checksum: 7\r\n'],
  ])('exactly one date with %s', async (_, trailers) => {
    upstream.script = {
      onRequest: (connection) =>
        connection.write(
          `HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${trailers}\r\n`,
        ),
    };
    const answer = await rawRequest(gateway.port, request('/empty'));
    const dates = answer.headers.filter(([name]) => name.toLowerCase() === 'date');
    expect(dates).toHaveLength(1);
    expect(new Date(dates[0]![1]).toUTCString()).toBe(dates[0]![1]);
    expect(answer.body).toHaveLength(0);
  });

  it('a redirect, which the gateway does not follow', async () => {
    upstream.script.onRequest = (c) =>
      c.write(messageBytes('HTTP/1.1 307 Temporary Redirect', [['location', '/elsewhere']]));
    const answer = await rawRequest(gateway.port, request('/'));
    expect(answer.status).toBe(307);
    expect(headerValue(answer, 'location')).toBe('/elsewhere');
    expect(upstream.requests).toHaveLength(1);
  });

  it('an answer that arrives before the request has ended', async () => {
    upstream.script = {
      onHead: (c) =>
        c.write(messageBytes('HTTP/1.1 413 Content Too Large', [['connection', 'close']], Buffer.from('no'))),
    };
    const client = await openRawClient(gateway.port);
    await client.write('POST / HTTP/1.1\r\nhost: gw\r\ncontent-length: 1000\r\n\r\nsome');
    const answer = await client.readAnswer();
    expect(answer.status).toBe(413);
    expect(answer.body.toString()).toBe('no');
    client.socket.destroy();
  });

  it.each([
    ['100-continue', 'content-length: 4', 'body'],
    ['100-Continue', 'content-length: 4', 'body'],
    ['100-CONTINUE', 'transfer-encoding: chunked', '4\r\nbody\r\n0\r\n\r\n'],
  ])('the go-ahead before the final answer for Expect: %s with %s', async (expectation, framing, body) => {
    const client = await openRawClient(gateway.port);
    await client.write(`POST / HTTP/1.1\r\nhost: gw\r\nexpect: ${expectation}\r\n${framing}\r\n\r\n`);
    await client.waitForMatch(/^HTTP\/1\.1 100 Continue\r\n\r\n/);
    await client.write(body);
    const answer = await client.readAnswer();
    expect(answer.start_line).toBe('HTTP/1.1 200 OK');
    expect(answer.informational).toHaveLength(1);
    expect(upstream.requests[0]!.body.toString()).toBe('body');
    expect(headerValue(upstream.requests[0]!, 'expect')).toBeNull();
    // The next request on the connection gets its answer.
    await client.write(request('/next'));
    expect((await client.readAnswer()).body.toString()).toBe('ok');
    client.socket.destroy();
  });

  it.each(['banana', 'banana=1'])(
    'a request with Expect: %s, without the header and without a go-ahead, as nginx passes it on',
    async (expectation) => {
      const client = await openRawClient(gateway.port);
      await client.write(
        `POST / HTTP/1.1\r\nhost: gw\r\nexpect: ${expectation}\r\ncontent-length: 4\r\n\r\nbody`,
      );
      const answer = await client.readAnswer();
      expect([answer.start_line, answer.informational]).toEqual(['HTTP/1.1 200 OK', []]);
      expect(upstream.requests[0]!.body.toString()).toBe('body');
      expect(headerValue(upstream.requests[0]!, 'expect')).toBeNull();
      client.socket.destroy();
    },
  );
});

describe('prefix routes', () => {
  it.each([
    ['/gemini/v1beta/models/x:generateContent?key=k', '/g/v1beta/models/x:generateContent?key=k'],
    ['/gemini', '/g/'],
    ['/bedrock/us-east-1/model/a%3Ab/converse', '/b/us-east-1/model/a%3Ab/converse'],
    ['/bedrock/us-gov-west-1/x', '/b/us-gov-west-1/x'],
    ['/bedrockx/y', '/bedrockx/y'],
  ])('%s goes to %s', async (target, arrives) => {
    await rawRequest(gateway.port, request(target));
    expect(upstream.requests[0]!.start_line).toBe(`GET ${arrives} HTTP/1.1`);
  });

  it.each([
    '/bedrock',
    '/bedrock/',
    '/bedrock/evil.com#/x',
    '/bedrock/us-east-1.evil.com/x',
    '/bedrock/US-EAST-1/x',
    '/bedrock/us-east-12/x',
    '/bedrock/%75s-east-1/x',
  ])('%s is refused', async (target) => {
    const answer = await rawRequest(gateway.port, request(target));
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body.toString()).error.type).toBe('invalid_request_error');
    expect(upstream.requests).toHaveLength(0);
  });
});

describe('refused requests', () => {
  const NEXT = 'GET /smuggled HTTP/1.1\r\nhost: gw\r\n\r\n';
  const post = (headers: string, body: string) =>
    `POST /refused HTTP/1.1\r\nhost: gw\r\n${headers}\r\n\r\n${body}`;

  it.each([
    ['differing Content-Length', post('content-length: 3\r\ncontent-length: 5', 'abcde')],
    ['repeated Content-Length', post('content-length: 3\r\ncontent-length: 3', 'abc')],
    ['a list in Content-Length', post('content-length: 3, 3', 'abc')],
    ['a signed Content-Length', post('content-length: +3', 'abc')],
    ['an empty Content-Length', post('content-length: ', 'abc')],
    ['a hexadecimal Content-Length', post('content-length: 0x3', 'abc')],
    ['Transfer-Encoding xchunked', post('transfer-encoding: xchunked', '3\r\nabc\r\n0\r\n\r\n')],
    ['Transfer-Encoding gzip, chunked', post('transfer-encoding: gzip, chunked', '3\r\nabc\r\n0\r\n\r\n')],
    ['Transfer-Encoding identity', post('transfer-encoding: identity', 'abc')],
    [
      'two Transfer-Encodings',
      post('transfer-encoding: chunked\r\ntransfer-encoding: chunked', '3\r\nabc\r\n0\r\n\r\n'),
    ],
    ['both framings', post('content-length: 3\r\ntransfer-encoding: chunked', '3\r\nabc\r\n0\r\n\r\n')],
    [
      'both framings, turned round',
      post('transfer-encoding: chunked\r\ncontent-length: 3', '3\r\nabc\r\n0\r\n\r\n'),
    ],
    ['a chunk size that is no number', post('transfer-encoding: chunked', 'zz\r\nabc\r\n0\r\n\r\n')],
    ['a negative chunk size', post('transfer-encoding: chunked', '-3\r\nabc\r\n0\r\n\r\n')],
    ['a chunk size with 0x', post('transfer-encoding: chunked', '0x3\r\nabc\r\n0\r\n\r\n')],
    ...(isPlain
      ? []
      : [
          ['a chunk size beyond all bounds', post('transfer-encoding: chunked', 'ffffffffffffffff\r\nabc')],
          ['a chunk extension', post('transfer-encoding: chunked', '3;a=b\r\nabc\r\n0\r\n\r\n')],
        ]),
    ['a header name with a blank', 'GET / HTTP/1.1\r\nhost: gw\r\nx-a : 1\r\n\r\n'],
    ['a folded header', 'GET / HTTP/1.1\r\nhost: gw\r\nx-a: 1\r\n 2\r\n\r\n'],
    ['a NUL in a header', 'GET / HTTP/1.1\r\nhost: gw\r\nx-a: a\0b\r\n\r\n'],
    ['no Host', 'GET / HTTP/1.1\r\nx-a: 1\r\n\r\n'],
    ['a path that is not UTF-8', 'GET /\xe9 HTTP/1.1\r\nhost: gw\r\n\r\n'],
  ])('%s: 400, the connection ends, nothing is forwarded', async (name, bytes) => {
    const client = await openRawClient(gateway.port);
    // After an unfinished chunk extension, no further bytes are sent, because they would count as part of the
    // extension.
    await client.write(name === 'a chunk extension' ? bytes : bytes + NEXT);
    await client.waitUntil(() => client.closed_how !== null, 'the end of the connection');
    expect(client.received.toString('latin1')).toMatch(/^HTTP\/1\.1 400 /);
    expect(client.received.toString('latin1').match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(upstream.requests).toHaveLength(0);
    client.socket.destroy();
  });

  it.each([
    ['HTTP/1.0', 'GET / HTTP/1.0\r\nhost: gw\r\n\r\n', 505],
    ['an absolute target', 'GET http://elsewhere/ HTTP/1.1\r\nhost: gw\r\n\r\n', 505],
    ['CONNECT', 'CONNECT elsewhere:443 HTTP/1.1\r\nhost: gw\r\n\r\n', 505],
    ['a head beyond 64 KiB', `GET / HTTP/1.1\r\nhost: gw\r\nx: ${'a'.repeat(70_000)}\r\n\r\n`, 431],
  ])('%s: an error status, nothing is forwarded', async (_name, bytes, status) => {
    const answer = await rawRequest(gateway.port, bytes, { until: 'closed' });
    expect(answer.status).toBe(status);
    expect(upstream.requests).toHaveLength(0);
  });

  it('a malformed later chunk ends both sides, and no whole request arrives', async () => {
    const client = await openRawClient(gateway.port);
    const arrived = Promise.withResolvers<UpstreamConnection>();
    upstream.script.onHead = async (c) => {
      await c.waitForMatch(/later/);
      arrived.resolve(c);
    };
    await client.write(post('transfer-encoding: chunked', '5\r\nlater\r\n'));
    const connection = await arrived.promise;
    await client.write('zz\r\nabc\r\n0\r\n\r\n');
    await client.waitUntil(() => client.closed_how !== null, 'the end of the connection');
    await connection.closed;
    expect(upstream.requests).toHaveLength(0);
    client.socket.destroy();
  });

  it('CONNECT with a path: 405, also outside the admin routes', async () => {
    for (const target of ['/', '/v1/messages', '/gemini/x', '/__gw/stats']) {
      const answer = await rawRequest(gateway.port, `CONNECT ${target} HTTP/1.1\r\nhost: gw\r\n\r\n`);
      expect(answer.status, target).toBe(405);
    }
    expect(upstream.requests).toHaveLength(0);
  });

  it('WebSocket upgrades that cannot become a tunnel: 426', async () => {
    const answer = await rawRequest(
      gateway.port,
      request('/v1/realtime', [
        ['connection', 'keep-alive, Upgrade'],
        ['upgrade', 'websocket'],
        ['content-length', '0'],
        ['sec-websocket-key', 'dGhlIHNhbXBsZSBub25jZQ=='],
        ['sec-websocket-version', '13'],
      ]),
    );
    expect(answer.status).toBe(426);
    expect(JSON.parse(answer.body.toString()).type).toBe('error');
  });
});

describe('admin routes', () => {
  it.each([
    ['GET', '/__gw/nothing', [], 404],
    ['GET', '/__gw', [], 404],
    ['POST', '/__gw/flush', [['origin', 'http://127.0.0.1']], 403],
    ['POST', '/__gw/flush', [['origin', 'null']], 403],
    ['GET', '/__gw/stats', [['origin', 'http://evil.example']], 403],
    ['GET', '/__gw/routes', [['Origin', 'http://gw:8787']], 403],
    ['GET', '/__gw/flush', [['origin', 'null']], 403],
    ['GET', '/__gw/flush', [['origin', '']], 403],
    ['GET', '/__gw/stats', [['origin', 'http://gw.evil.example']], 403],
    ['GET', '/__gw/stats', [['origin', 'HTTP://GW']], 200],
    ['GET', '/__gw/stats', [['sec-fetch-site', 'cross-site']], 403],
    ['GET', '/__gw/flush', [['Sec-Fetch-Site', 'same-site']], 403],
    ['GET', '/__gw/stats', [['sec-fetch-site', 'none']], 200],
    ['GET', '/__gw/routes', [], 200],
    ['GET', '/__gw/ready', [], 200],
    ['GET', '/__gw/ready', [['origin', 'http://balancer.example']], 200],
    ['HEAD', '/__gw/ready', [], 200],
    ['POST', '/__gw/rotate', [], 409],
  ] as const)('%s %s %j: %i, never forwarded', async (method, target, headers, status) => {
    const answer = await rawRequest(
      gateway.port,
      request(target, [...headers] as [string, string][], method),
      { no_body: method === 'HEAD' },
    );
    expect(answer.status).toBe(status);
    expect(headerValue(answer, 'content-type')).toBe('application/json');
    expect(upstream.requests).toHaveLength(0);
  });

  it.each(Object.entries(ADMIN_ROUTES))('%s refuses other methods, and pages', async (path, route) => {
    const ask = (method: string, headers: [string, string][] = []) =>
      rawRequest(gateway.port, request(path, headers, method), { no_body: method === 'HEAD' });
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE']) {
      if (route.methods.includes(method)) continue;
      const answer = await ask(method);
      expect(answer.status, method).toBe(405);
      expect(headerValue(answer, 'allow'), method).toBe(route.methods.join(', '));
    }
    const fromPage = await ask(route.methods[0]!, [['origin', 'http://evil.example']]);
    expect(fromPage.status).toBe(path === '/__gw/ready' ? 200 : 403);
    expect(upstream.requests).toHaveLength(0);
  });

  it.each([
    ['GET', '/__gw/stats'],
    ['GET', '/__gw/flush'],
    ['POST', '/__gw/writer/kill'],
    ['GET', '/__gw/nothing'],
  ])(
    '%s %s under a name that another site can have: 421, with the setting that allows it',
    async (method, target) => {
      const ask = (host: string) =>
        rawRequest(gateway.port, `${method} ${target} HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
      const answer = await ask('rebound.example.com:8787');
      expect(answer.status).toBe(421);
      expect(JSON.parse(answer.body.toString()).error).toEqual({
        type: 'invalid_request_error',
        message: expect.stringContaining('ALLOWED_HOSTS'),
      });
      for (const host of ['understudy:8787', '127.0.0.1', '[::1]:8787', 'localhost'])
        expect((await ask(host)).status, host).not.toBe(421);
      expect(upstream.requests).toHaveLength(0);
    },
  );

  it('the host name is not checked for forwarded requests', async () => {
    const answer = await rawRequest(gateway.port, 'GET /a HTTP/1.1\r\nhost: any.example.com\r\n\r\n');
    expect(answer.status).toBe(200);
    expect(upstream.requests).toHaveLength(1);
  });
});

describe('failures', () => {
  it('no upstream: 502 in the format of the Messages API', async () => {
    const lonely = await startTestGateway(UNREACHABLE);
    const answer = await rawRequest(lonely.port, request('/v1/chat/completions'));
    expect(answer.status).toBe(502);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ type: 'error', error: { type: 'api_error' } });
    await lonely.close();
  });

  it.each([
    ['with a length', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart'],
    ['chunked', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n'],
    [
      'chunked, to be closed',
      'HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n',
    ],
    [
      'with a length, to be closed',
      'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 100\r\n\r\npart',
    ],
  ])('an upstream that dies in a body %s: never a clean end', async (_name, bytes) => {
    for (const how of ['halfClose', 'reset'] as const) {
      const shown = Promise.withResolvers<void>();
      upstream.script.onRequest = async (c) => {
        await c.write(bytes);
        await shown.promise;
        c[how]();
      };
      const client = await openRawClient(gateway.port);
      await client.write(request('/'));
      await client.waitForMatch(/part/);
      shown.resolve();
      const answer = await client.readAnswer();
      expect(answer.complete).toBe(false);
      expect(answer.body.toString()).toBe('part');
      client.socket.destroy();
    }
  });

  it('an upstream that resets an answer without framing: the answer never ends cleanly', async () => {
    const shown = Promise.withResolvers<void>();
    upstream.script.onRequest = async (c) => {
      await c.write('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\npart');
      await shown.promise;
      c.reset();
    };
    const client = await openRawClient(gateway.port);
    await client.write(request('/'));
    await client.waitForMatch(/part/);
    shown.resolve();
    expect((await client.readAnswer()).complete).toBe(false);
    client.socket.destroy();
  });

  it('a used connection that ended before an answer: one retry, also with a body', async () => {
    await rawRequest(gateway.port, request('/warm'));
    let attempts = 0;
    upstream.script.onRequest = (c) => {
      attempts++;
      if (attempts === 1) c.reset();
      else void c.write(OK);
    };
    const answer = await rawRequest(
      gateway.port,
      messageBytes('POST /again HTTP/1.1', [['host', 'gw']], Buffer.from('body')),
    );
    expect(answer.status).toBe(200);
    expect(attempts).toBe(2);
    expect(upstream.requests.at(-1)!.body.toString()).toBe('body');
  });

  it('no request is retried on a fresh connection, and none twice', async () => {
    const fresh = await startRawUpstream((c) => c.reset());
    const other = await startTestGateway(fresh.url);
    expect((await rawRequest(other.port, request('/'))).status).toBe(502);
    expect(fresh.requests).toHaveLength(1);
    await other.close();
    await fresh.close();

    await rawRequest(gateway.port, request('/warm'));
    upstream.requests.length = 0;
    upstream.script.onRequest = async (c) => {
      await c.write('HTTP/1.1 200 O');
      c.reset();
    };
    expect((await rawRequest(gateway.port, request('/'))).status).toBe(502);
    expect(upstream.requests.length).toBeLessThanOrEqual(2);
  });

  it.each(['before the head', 'in the body', 'while uploading'])(
    'a client that leaves %s ends the upstream’s request',
    async (phase) => {
      upstream.script = {
        onHead: async (c) => {
          if (phase === 'in the body')
            await c.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n');
        },
      };
      const first = upstream.connections.length;
      const client = await openRawClient(gateway.port);
      // A separate path in each phase, because earlier connections still hold the data that they received.
      const target = `/gone/${phase.replaceAll(' ', '-')}`;
      if (phase === 'while uploading') {
        await client.write(`POST ${target} HTTP/1.1\r\nhost: gw\r\ncontent-length: 1000\r\n\r\nhalf`);
      } else {
        await client.write(request(target));
      }
      const carrying = () => upstream.connections.find((c) => c.received.includes(target));
      await upstream.waitUntil(() => carrying() !== undefined, 'the request');
      if (phase === 'in the body') await client.waitForMatch(/part/);
      client.reset();
      await carrying()!.closed;
      expect(upstream.connections.length - first).toBeLessThanOrEqual(1);
    },
  );
});

describe('back-pressure', () => {
  it('a reader that stalls stops the upstream, and receives every byte when it continues', async () => {
    const total = 64 * 1024 * 1024;
    const piece = randomBytes(64 * 1024);
    let sent = 0;
    upstream.script.onRequest = async (c) => {
      await c.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`);
      while (sent < total) {
        await c.write(piece);
        sent += piece.length;
      }
    };
    const client = await openRawClient(gateway.port);
    client.keep_received = false;
    await client.write(request('/big'));
    await client.waitForBytes(1);
    client.pause();
    // The upstream stops when all buffers on the way are full; the system decides how large they are.
    let last = -1;
    await expect
      .poll(
        () => {
          const stands = sent === last;
          last = sent;
          return stands;
        },
        { interval: 300 },
      )
      .toBe(true);
    expect(sent).toBeLessThan(total / 2);
    client.resume();
    await client.waitUntil(() => client.received_bytes > total, 'the whole body');
    expect(sent).toBe(total);
    client.socket.destroy();
  });

  it('an upstream that does not read stops the client', { tags: 'long' }, async () => {
    upstream.script = {
      onHead: (c) => c.pause(),
    };
    const total = 64 * 1024 * 1024;
    const client = await openRawClient(gateway.port);
    await client.write(`POST /up HTTP/1.1\r\nhost: gw\r\ncontent-length: ${total}\r\n\r\n`);
    const piece = Buffer.alloc(64 * 1024, 'u');
    let sent = 0;
    const sending = (async () => {
      while (sent < total && !client.socket.destroyed) {
        await client.write(piece);
        sent += piece.length;
      }
    })();
    let last = -1;
    await expect
      .poll(
        () => {
          const stands = sent === last && sent > 0;
          last = sent;
          return stands;
        },
        { interval: 300 },
      )
      .toBe(true);
    expect(sent).toBeLessThan(total / 2);
    upstream.script = { onRequest: (c) => c.write(OK) };
    for (const connection of upstream.connections) {
      connection.keep_received = true;
      connection.resume();
    }
    expect((await client.readAnswer()).status).toBe(200);
    await sending;
    expect(upstream.requests.at(-1)!.body.length).toBe(total);
    client.socket.destroy();
  });
});
