/**
 * WebSocket through the gateway: any bytes arrive unchanged in both directions, and the end of one side ends the other.
 * `ws` is client and upstream; tests that compare bytes use bare sockets for both. Test thread, gateway included.
 */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { socketEngine } from '../../native/socket-engine.ts';
import { loadServer } from '../../src/http/server.ts';
import { isSpeakingTls, TEST_CERTIFICATE } from '../fixtures/certificate.ts';
import { startTestGateway, type TestGateway } from '../fixtures/gateway.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { openRawClient, rawRequest } from '../fixtures/raw-client.ts';

/** On uWebSockets.js without the addon, a handshake gets 426. */
const canTunnel = (await loadServer()) === 'node' || socketEngine.watchConnections() !== '';

let upstream: WebSocketServer;
let gateway: TestGateway;
let onSocket: (socket: WebSocket, url: string) => void = () => {};
const handshakes: string[][] = [];

beforeAll(async () => {
  const http = createServer((_request, response) => {
    response.writeHead(401, { 'content-type': 'application/json', 'x-why': 'key' });
    response.end('{"error":"no"}');
  });
  upstream = new WebSocketServer({
    noServer: true,
    perMessageDeflate: { threshold: 0 },
    maxPayload: 64 << 20,
  });
  http.on('upgrade', (request, socket, head) => {
    handshakes.push(request.rawHeaders);
    if (request.url === '/refused') {
      socket.end('HTTP/1.1 403 Forbidden\r\nx-why: no\r\ncontent-length: 2\r\n\r\nno');
      return;
    }
    upstream.handleUpgrade(request, socket, head, (accepted) => onSocket(accepted, request.url!));
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  upstream.once('close', () => http.close());
  gateway = await startTestGateway(`http://127.0.0.1:${(http.address() as AddressInfo).port}`);
  closeHttp = () => {
    http.closeAllConnections();
    http.close();
  };
});
let closeHttp = () => {};
afterAll(async () => {
  for (const socket of upstream.clients) socket.terminate();
  await gateway.close();
  closeHttp();
});
beforeEach(() => {
  handshakes.length = 0;
  onSocket = (socket) => socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
});

const connect = (path = '/v1/realtime?model=x', options: WebSocket.ClientOptions = {}) =>
  new WebSocket(`${gateway.url.replace('http', 'ws')}${path}`, ['realtime', 'other'], {
    ca: TEST_CERTIFICATE,
    maxPayload: 64 << 20,
    ...options,
  });
const opened = async (socket: WebSocket) => {
  await once(socket, 'open');
  return socket;
};
const next = async (socket: WebSocket) => {
  const [data, isBinary] = (await once(socket, 'message')) as [Buffer, boolean];
  return isBinary ? data : data.toString();
};

describe.runIf(canTunnel)('a handshake', () => {
  it('reaches the upstream with its headers, and returns with the upstream’s', async () => {
    const socket = connect('/v1/realtime?model=x', {
      headers: { authorization: 'Bearer k', 'x-svc-run': 'r', 'x-kept': '1' },
    });
    const answer = once(socket, 'upgrade') as Promise<
      [{ headers: Record<string, string>; rawHeaders: string[] }]
    >;
    await opened(socket);
    const names = handshakes[0]!.filter((_, at) => at % 2 === 0);
    expect(names).toEqual(
      expect.arrayContaining(['authorization', 'x-kept', 'sec-websocket-key', 'sec-websocket-extensions']),
    );
    expect(names).not.toContain('x-svc-run');
    expect(names.filter((name) => name === 'content-length')).toEqual([]);
    const [{ headers }] = await answer;
    expect(headers).toMatchObject({
      upgrade: 'websocket',
      connection: 'Upgrade',
      'sec-websocket-protocol': 'realtime',
    });
    expect(headers['content-length']).toBeUndefined();
    socket.close();
    await once(socket, 'close');
  });

  it('that the upstream refuses returns its answer', async () => {
    const socket = connect('/refused');
    const [, answer] = (await once(socket, 'unexpected-response')) as [
      unknown,
      import('node:http').IncomingMessage,
    ];
    expect([answer.statusCode, answer.headers['x-why']]).toEqual([403, 'no']);
    answer.resume();
    socket.on('error', () => {}).terminate();
  });

  const handshake = (path: string) =>
    `GET ${path} HTTP/1.1\r\nhost: gw\r\nconnection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\nsec-websocket-key: x\r\n\r\n`;

  it('to a closed port gets 502', async () => {
    const lonely = await startTestGateway('http://127.0.0.1:1');
    expect((await rawRequest(lonely.port, handshake('/v1/x'), { until: 'closed' })).status).toBe(502);
    await lonely.close();
  });

  it('on one of the gateway’s own routes gets its answer, without an upgrade', async () => {
    expect((await rawRequest(gateway.port, handshake('/__gw/stats'), { until: 'closed' })).status).toBe(200);
  });

  it('with a body or a method other than GET gets 426 with how to continue without it', async () => {
    const answer = await rawRequest(
      gateway.port,
      'POST /v1/x HTTP/1.1\r\nhost: gw\r\nconnection: Upgrade\r\nupgrade: websocket\r\ncontent-length: 2\r\n\r\n{}',
    );
    expect(answer.status).toBe(426);
    const other = await rawRequest(
      gateway.port,
      'POST /v1/x HTTP/1.1\r\nhost: gw\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n',
    );
    expect(other.status).toBe(426);
    const lines = answer.headers.map((pair) => pair.join(': ').toLowerCase());
    expect(lines).toEqual(expect.arrayContaining(['upgrade: websocket', 'connection: upgrade']));
  });
});

describe.runIf(canTunnel)('messages', () => {
  it('of all sizes, text and binary, compressed and not, pass', {
    tags: 'long',
    timeout: 60_000,
  }, async () => {
    for (const perMessageDeflate of [false, true]) {
      const socket = await opened(connect('/', { perMessageDeflate }));
      expect(socket.extensions).toBe(perMessageDeflate ? 'permessage-deflate' : '');
      for (const size of [0, 1, 125, 126, 65_535, 65_536, 1 << 20, 16 << 20]) {
        const bytes = randomBytes(size);
        socket.send(bytes);
        expect(
          createHash('md5')
            .update((await next(socket)) as Buffer)
            .digest('hex'),
        ).toBe(createHash('md5').update(bytes).digest('hex'));
      }
      socket.send('späte Läufe');
      expect(await next(socket)).toBe('späte Läufe');
      socket.close();
      await once(socket, 'close');
    }
  });

  it('keep their order and data, and so do pings', async () => {
    onSocket = (socket) => {
      socket.on('ping', (data) => socket.send(`ping ${data}`));
      socket.ping('from above');
    };
    const socket = connect();
    const pinged = once(socket, 'ping');
    await opened(socket);
    expect(String((await pinged)[0])).toBe('from above');
    socket.ping('from below');
    expect(await next(socket)).toBe('ping from below');
    socket.terminate();
  });

  it('wait for a slow reader, on either side', { timeout: 60_000 }, async () => {
    const upper: WebSocket[] = [];
    onSocket = (socket) => upper.push(socket);
    const socket = await opened(connect('/', { perMessageDeflate: false }));
    await expect.poll(() => upper.length).toBe(1);
    const piece = randomBytes(1 << 20);
    for (const [from, to] of [
      [socket, upper[0]!],
      [upper[0]!, socket],
    ] as const) {
      let count = 0;
      to.on('message', () => count++);
      to.pause();
      for (let i = 0; i < 40; i++) from.send(piece);
      // The sender must keep the bytes that are not accepted.
      await expect.poll(() => from.bufferedAmount, { timeout: PATIENCE_MS }).toBeGreaterThan(16 << 20);
      to.resume();
      await expect.poll(() => count, { timeout: PATIENCE_MS }).toBe(40);
    }
    socket.terminate();
  });
});

describe.runIf(canTunnel)('the end', () => {
  it.each([
    ['the client', 1000, 'done'],
    ['the client', 4_321, 'späte Läufe'],
    ['the upstream', 1001, ''],
    ['the upstream', 4_000, 'no more'],
  ] as const)('by %s with %i "%s" reaches the other side', async (who, code, reason) => {
    const upper: WebSocket[] = [];
    onSocket = (socket) => upper.push(socket);
    const socket = await opened(connect());
    await expect.poll(() => upper.length).toBe(1);
    const [first, second] = who === 'the client' ? [socket, upper[0]!] : [upper[0]!, socket];
    const ended = Promise.all([once(first, 'close'), once(second, 'close')]);
    first.close(code, reason);
    const [[here, said], [there, words]] = await ended;
    expect([there, String(words)]).toEqual([code, reason]);
    expect([here, String(said)]).toEqual([code, reason]);
    await expect.poll(() => gateway.open()).toBe(0);
  });

  it('within a frame, by either side, ends both sides', async () => {
    for (const isClient of [true, false]) {
      const upper: WebSocket[] = [];
      onSocket = (socket) => upper.push(socket);
      const socket = await opened(connect('/', { perMessageDeflate: false }));
      await expect.poll(() => upper.length).toBe(1);
      const [first, second] = isClient ? [socket, upper[0]!] : [upper[0]!, socket];
      const ended = once(second, 'close');
      second.on('error', () => {});
      const raw = (first as unknown as { _socket: Socket })._socket;
      // The frame announces 1,000 bytes (with a mask if it is a client's), but only ten arrive.
      raw.write(
        Buffer.concat([Buffer.from(isClient ? '82fe03e800000000' : '827e03e8', 'hex'), randomBytes(10)]),
        () => raw.destroy(),
      );
      const [code] = await ended;
      expect(code).toBe(1006);
      await expect.poll(() => gateway.open()).toBe(0);
    }
  });
});

describe.runIf(canTunnel)('bytes', () => {
  let server: Server;
  let bare: TestGateway;
  const sockets: Socket[] = [];
  /** The bytes that arrived after the handshake, by socket. */
  const arrived: Buffer[][] = [];
  beforeAll(async () => {
    server = createTcpServer({ allowHalfOpen: true }, (socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      let head = Buffer.alloc(0);
      const onData = (bytes: Buffer) => {
        head = Buffer.concat([head, bytes]);
        const end = head.indexOf('\r\n\r\n');
        if (end < 0) return;
        socket.off('data', onData);
        socket.write(`HTTP/1.1 101 Now\r\nUpgrade: websocket\r\nConnection: upgrade\r\nX-Up: 1\r\n\r\n`);
        const pieces: Buffer[] = [head.subarray(end + 4)];
        arrived.push(pieces);
        socket.on('data', (piece: Buffer) => pieces.push(piece));
      };
      socket.on('data', onData);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    bare = await startTestGateway(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await bare.close();
    server.close();
  });
  beforeEach(() => {
    sockets.length = 0;
    arrived.length = 0;
  });
  const HANDSHAKE =
    'GET /x HTTP/1.1\r\nHost: gw\r\nUPGRADE: websocket\r\nConnection: keep-alive,  Upgrade \r\n\r\n';

  it('that are not frames pass unchanged directly after the handshake, in pieces of any size', async () => {
    const sent = randomBytes(300_000);
    for (const step of [1, 7, 1_000_000]) {
      const client = await openRawClient(bare.port);
      const head = Buffer.from(HANDSHAKE);
      const count = sockets.length;
      for (let at = 0; at < head.length; at += step) await client.write(head.subarray(at, at + step));
      await client.waitUntil(() => client.received.includes('\r\n\r\n'), 'the answer');
      const [answer] = client.received.toString('latin1').split('\r\n\r\n');
      expect(answer).toMatch(/^HTTP\/1\.1 101 /);
      expect(answer!.toLowerCase()).not.toContain('content-length');
      expect(answer).toContain('X-Up: 1');
      const there = sockets[count]!;
      await client.write(sent);
      await expect
        .poll(() => Buffer.concat(arrived[count]!).length, { timeout: PATIENCE_MS })
        .toBe(sent.length);
      expect(Buffer.concat(arrived[count]!).equals(sent)).toBe(true);
      there.write(sent);
      const answered = answer!.length + 4;
      await client.waitUntil(() => client.received.length === answered + sent.length, 'the bytes');
      expect(client.received.subarray(answered).equals(sent)).toBe(true);
      client.socket.destroy();
    }
  });

  it('that look like a request in a tunnel are not handled as one', async () => {
    const client = await openRawClient(bare.port);
    const smuggled = 'GET /__gw/stats HTTP/1.1\r\nhost: gw\r\n\r\n';
    await client.write(HANDSHAKE + smuggled);
    await client.waitUntil(() => client.received.includes('\r\n\r\n'), 'the answer');
    await expect.poll(() => Buffer.concat(arrived[0]!).toString(), { timeout: PATIENCE_MS }).toBe(smuggled);
    client.socket.destroy();
  });

  it('that one side writes before it ends its half arrive; then both sides end', async () => {
    for (const isClient of [true, false]) {
      const count = sockets.length;
      const client = await openRawClient(bare.port);
      await client.write(HANDSHAKE);
      await client.waitUntil(() => client.received.includes('\r\n\r\n'), 'the answer');
      const there = sockets[count]!;
      if (isClient) {
        const ended = once(there, 'end');
        client.socket.end();
        await ended;
        there.end();
      } else {
        there.end('last words');
        await client.waitUntil(() => client.closed_how !== null, 'the end');
        expect(client.received.toString('latin1')).toMatch(/last words$/);
      }
      client.socket.destroy();
      await expect.poll(() => bare.open()).toBe(0);
    }
  });
});

describe.runIf(canTunnel && !isSpeakingTls())('a gateway', () => {
  it('serves a thousand sockets at once', { tags: 'long', timeout: 60_000 }, async () => {
    const all = await Promise.all(
      Array.from({ length: 1_000 }, () => opened(connect('/', { perMessageDeflate: false }))),
    );
    expect(gateway.open()).toBe(1_000);
    const echoes = await Promise.all(
      all.map(async (socket, at) => {
        socket.send(`number ${at}`);
        return next(socket);
      }),
    );
    expect(echoes).toEqual(all.map((_, at) => `number ${at}`));
    const closed = Promise.all(all.map((socket) => once(socket, 'close')));
    for (const socket of all) socket.close(1000);
    await closed;
    await expect.poll(() => gateway.open(), { timeout: PATIENCE_MS }).toBe(0);
  });
});
