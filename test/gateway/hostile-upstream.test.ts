/**
 * Upstreams that break HTTP/1.1, by mistake or on purpose: the client gets a failure, never another client's bytes, and
 * the next request goes over another connection. Raw sockets on both sides. Test thread, gateway included.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { UPSTREAM_HEAD_BYTES } from '../../src/limits.ts';
import { startTestGateway, type TestGateway } from '../fixtures/gateway.ts';
import { openRawClient, rawRequest } from '../fixtures/raw-client.ts';
import { headBytes, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream, type UpstreamConnection } from '../fixtures/raw-upstream.ts';

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
const get = (target: string) =>
  messageBytes(`GET ${target} HTTP/1.1`, [['host', 'gw']], undefined, { framing: 'none' });
const HEAD = 'HTTP/1.1 200 OK\r\n';
const SMUGGLED = 'HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsmuggled';

/** Answers one request with these bytes, and records its connection. */
async function answerOnce(bytes: string | Uint8Array): Promise<UpstreamConnection> {
  const answered = Promise.withResolvers<UpstreamConnection>();
  upstream.script.onRequest = async (connection) => {
    upstream.script.onRequest = (other) => other.write(OK);
    await connection.write(bytes);
    answered.resolve(connection);
  };
  return answered.promise;
}

describe('an upstream that breaks the protocol', () => {
  it.each([
    ['garbage', '\x16\x03\x01\x02\0'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['line ends with a bare LF', 'HTTP/1.1 200 OK\ncontent-length: 2\n\nok'],
    [
      'a length and chunks',
      `${HEAD}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
    ],
    [
      'chunks and a length',
      `${HEAD}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n${SMUGGLED}`,
    ],
    ['two lengths', `${HEAD}content-length: 2\r\ncontent-length: 99\r\n\r\nok${SMUGGLED}`],
    ['a negative length', `${HEAD}content-length: -1\r\n\r\n${SMUGGLED}`],
    ['chunked twice', `${HEAD}transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`],
    [
      'an encoding that only resembles chunked',
      `${HEAD}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
    ],
    ['a length behind a blank', `${HEAD}content-length : 2\r\n\r\nok${SMUGGLED}`],
    ['a folded header', `${HEAD}x: a\r\n content-length: 2\r\n\r\nok`],
    ['a header that holds a NUL', `${HEAD}x: a\0b\r\ncontent-length: 2\r\n\r\nok`],
    ['a switch of protocols', 'HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'],
    ['a head that is too long', `${HEAD}x: ${'a'.repeat(UPSTREAM_HEAD_BYTES)}\r\n\r\n`],
    ['a head without end', `${HEAD}${'x: a\r\n'.repeat(UPSTREAM_HEAD_BYTES / 6 + 1)}`],
    ['informational heads without end', 'HTTP/1.1 102 P\r\n\r\n'.repeat(UPSTREAM_HEAD_BYTES / 18 + 1)],
  ])('%s: 502, and the connection ends', async (_name, bytes) => {
    const answered = answerOnce(bytes);
    const client = await openRawClient(gateway.port);
    await client.write(get('/hostile'));
    const answer = await client.readAnswer();
    expect(answer.status).toBe(502);
    expect(answer.body.toString()).toContain('BAD_ANSWER');
    expect(answer.body.toString()).not.toContain('smuggled');
    await (await answered).closed;
    // The request is not retried, because the upstream has answered, if wrongly.
    expect(upstream.requests).toHaveLength(1);
    await client.write(get('/next'));
    expect((await client.readAnswer()).body.toString()).toBe('ok');
    client.socket.destroy();
  });

  it.each([
    ['a negative size', '-1\r\n'],
    ['a size beyond all bounds', 'fffffffffffffffff\r\n'],
    ['a size with a bare LF', '4\nmore\r\n0\r\n\r\n'],
    ['a chunk longer than its size', `1\r\nmore\r\n0\r\n\r\n${SMUGGLED}`],
    ['a folded trailer', '0\r\nx: a\r\n b\r\n\r\n'],
    ['trailers without end', `0\r\n${'x: a\r\n'.repeat(UPSTREAM_HEAD_BYTES / 6 + 1)}`],
  ])('%s in a later chunk: the answer is cut', async (_name, bytes) => {
    const shown = Promise.withResolvers<void>();
    upstream.script.onRequest = async (connection) => {
      await connection.write(`${HEAD}transfer-encoding: chunked\r\n\r\n4\r\npart\r\n`);
      await shown.promise;
      await connection.write(bytes);
    };
    const client = await openRawClient(gateway.port);
    await client.write(get('/hostile'));
    await client.waitForMatch(/part/);
    shown.resolve();
    const answer = await client.readAnswer();
    expect(answer.complete).toBe(false);
    expect(answer.body.toString()).not.toContain('smuggled');
    client.socket.destroy();
  });

  it('has the bytes before a malformed chunk forwarded, even those in the same packet', async () => {
    void answerOnce(`${HEAD}transfer-encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n${SMUGGLED}`);
    const client = await openRawClient(gateway.port);
    await client.write(get('/hostile'));
    const answer = await client.readAnswer();
    expect(answer).toMatchObject({ status: 200, complete: false });
    expect(answer.body.toString()).toBe('part');
    client.socket.destroy();
  });

  it.each([
    ['a length', `${HEAD}content-length: 2\r\n\r\nok`],
    ['chunks', `${HEAD}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`],
    ['no body', 'HTTP/1.1 204 No Content\r\n\r\n'],
  ])('answers no request with the bytes behind an answer with %s', async (_name, bytes) => {
    const answered = answerOnce(bytes + SMUGGLED);
    const client = await openRawClient(gateway.port);
    await client.write(get('/first'));
    const first = await client.readAnswer();
    expect([200, 204]).toContain(first.status);
    await (await answered).closed;
    await client.write(get('/second'));
    expect((await client.readAnswer()).body.toString()).toBe('ok');
    client.socket.destroy();
  });

  it('loses the connection on which it answers without a request', async () => {
    await rawRequest(gateway.port, get('/warm'));
    const connection = upstream.connections[upstream.requests.at(-1)!.connection]!;
    await connection.write(SMUGGLED);
    await connection.closed;
    expect((await rawRequest(gateway.port, get('/next'))).body.toString()).toBe('ok');
    expect(upstream.requests.at(-1)!.connection).not.toBe(connection.index);
  });

  it('does not get the next request on a connection that it has just ended', async () => {
    await rawRequest(gateway.port, get('/warm'));
    const connection = upstream.connections[upstream.requests.at(-1)!.connection]!;
    connection.halfClose();
    expect((await rawRequest(gateway.port, get('/next'))).body.toString()).toBe('ok');
  });

  it('may send an answer in single bytes', async () => {
    upstream.script.onRequest = (connection) =>
      connection.writePieces(
        [
          ...Buffer.from(`${HEAD}X-A:  b \r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n`),
        ].map((byte) => Uint8Array.of(byte)),
      );
    const answer = await rawRequest(gateway.port, get('/slow'));
    expect(answer.headers).toContainEqual(['X-A', 'b']);
    expect(answer.body.toString()).toBe('abc');
    expect(answer.complete).toBe(true);
  });

  it('loses its connection if it sends a head without an end and the client leaves', async () => {
    upstream.script.onRequest = (connection) => connection.write(`${HEAD}x: slow`);
    const client = await openRawClient(gateway.port);
    await client.write(get('/slow'));
    const connection = upstream.connections[(await upstream.waitForRequests(1)).connection]!;
    client.reset();
    expect(await connection.closed).not.toBe('ours');
  });
});

describe('an upstream that goes away', () => {
  it.each([
    ['before its answer', ''],
    ['in its status line', 'HTTP/1.1 2'],
    ['in its head', `${HEAD}content-le`],
    ['behind an informational head', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ])('%s: 502 on a new connection, after a reset or an end', async (_name, bytes) => {
    for (const how of ['reset', 'halfClose'] as const) {
      const other = await startRawUpstream(async (connection) => {
        await connection.write(bytes);
        connection[how]();
      });
      const lonely = await startTestGateway(other.url);
      expect((await rawRequest(lonely.port, get('/'))).status).toBe(502);
      expect(other.requests).toHaveLength(1);
      await lonely.close();
      await other.close();
    }
  });

  it.each(['', 'HTTP/1.1 2', `${HEAD}content-le`, 'HTTP/1.1 103 Early Hints\r\n\r\n'])(
    'on a used connection after %j: the request is retried only if nothing had arrived',
    async (bytes) => {
      await rawRequest(gateway.port, get('/warm'));
      upstream.requests.length = 0;
      const gone = Promise.withResolvers<void>();
      upstream.script.onRequest = async (connection) => {
        upstream.script.onRequest = (next) => next.write(OK);
        await connection.write(bytes);
        if (bytes !== '') await gone.promise;
        connection.reset();
      };
      const client = await openRawClient(gateway.port);
      await client.write(get('/'));
      if (bytes.includes('103')) await client.waitForMatch(/103/);
      await upstream.waitForRequests(1);
      // The answer to another request shows that the gateway has read the bytes before the reset.
      expect((await rawRequest(gateway.port, get('/between'))).status).toBe(200);
      gone.resolve();
      expect((await client.readAnswer()).status).toBe(bytes === '' ? 200 : 502);
      const attempts = upstream.requests.filter(({ start_line }) => start_line === 'GET / HTTP/1.1');
      expect(attempts).toHaveLength(bytes === '' ? 2 : 1);
      client.socket.destroy();
    },
  );

  it('with a reset directly after an answer without framing does not complete that answer', async () => {
    upstream.script.onRequest = (connection) => {
      // Both in one turn of the loop, so that the bytes and the reset arrive together.
      void connection.write('HTTP/1.1 200 OK\r\n\r\npart');
      connection.reset();
    };
    for (let i = 0; i < 5; i++) {
      const client = await openRawClient(gateway.port);
      await client.write(get('/'));
      const answer = await client.readAnswer();
      expect(answer.status === 502 || !answer.complete).toBe(true);
      client.socket.destroy();
    }
  });

  it('by ending its half after a complete answer loses only the connection', async () => {
    upstream.script.onRequest = async (connection) => {
      await connection.write(OK);
      connection.halfClose();
    };
    for (let i = 0; i < 3; i++) expect((await rawRequest(gateway.port, get('/'))).body.toString()).toBe('ok');
    expect(new Set(upstream.requests.map(({ connection }) => connection)).size).toBe(3);
  });

  it('during an upload causes a 502, and the rest of the upload is discarded', async () => {
    upstream.script.onHead = (connection) => connection.reset();
    const client = await openRawClient(gateway.port);
    await client.write(
      Buffer.concat([
        headBytes('POST /up HTTP/1.1', [
          ['host', 'gw'],
          ['content-length', '500000'],
        ]),
        Buffer.alloc(70_000),
      ]),
    );
    expect((await client.readAnswer()).status).toBe(502);
    upstream.script = { onRequest: (connection) => connection.write(OK) };
    await client.write(Buffer.alloc(430_000));
    await client.write(get('/next'));
    expect((await client.readAnswer()).body.toString()).toBe('ok');
    client.socket.destroy();
  });
});

describe('a forwarded request', () => {
  it('has no length if the client’s had none, and 0 if the client’s had 0', async () => {
    await rawRequest(gateway.port, 'POST /none HTTP/1.1\r\nhost: gw\r\n\r\n');
    await rawRequest(gateway.port, 'POST /zero HTTP/1.1\r\nhost: gw\r\ncontent-length: 0\r\n\r\n');
    await rawRequest(gateway.port, 'GET /zero HTTP/1.1\r\nhost: gw\r\ncontent-length: 0\r\n\r\n');
    const lengths = upstream.requests.map(({ headers }) =>
      headers.filter(([name]) => name === 'content-length'),
    );
    expect(lengths).toEqual([[], [['content-length', '0']], [['content-length', '0']]]);
  });

  it('stays chunked when its body is empty', async () => {
    await rawRequest(
      gateway.port,
      'POST /empty HTTP/1.1\r\nhost: gw\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    );
    expect(upstream.requests[0]).toMatchObject({ framing: 'chunked' });
    expect(upstream.requests[0]!.body).toHaveLength(0);
  });

  it('receives an unrequested 100 Continue', async () => {
    upstream.script.onRequest = (connection) =>
      connection.write(`HTTP/1.1 100 Continue\r\n\r\n${OK.toString('latin1')}`);
    const answer = await rawRequest(gateway.port, get('/'));
    expect(answer.informational.map(({ start_line }) => start_line)).toEqual(['HTTP/1.1 100 Continue']);
    expect(answer.body.toString()).toBe('ok');
  });

  it('receives a reason phrase that arrives in pieces', async () => {
    upstream.script.onRequest = (connection) =>
      connection.writePieces(['HTTP/1.1 299 Quite ', 'Fine\r\ncontent-', 'length: 0\r\n\r\n']);
    expect((await rawRequest(gateway.port, get('/'))).start_line).toBe('HTTP/1.1 299 Quite Fine');
  });
});
