/**
 * Connections to an upstream: they are reused, as many are opened as there are concurrent requests, and none is lost.
 */
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { UpstreamError } from '../../src/gateway/upstream/answer-error.ts';
import {
  ConnectionPool,
  UPSTREAM_IDLE_MS,
  UPSTREAM_TIMEOUT_MS,
} from '../../src/gateway/upstream/connection-pool.ts';
import type {
  AnswerHandler,
  UpstreamConnection,
  UpstreamRequest,
} from '../../src/gateway/upstream/upstream-connection.ts';
import { UPSTREAM_CONNECT_MS } from '../../src/gateway/upstream/upstream-connection.ts';

interface Outcome {
  status: number;
  error: UpstreamError | null;
  connection: UpstreamConnection;
  /** How many requests were sent over the connection, including this one. */
  requests: number;
}

/**
 * Sends a request and waits for its end.
 * @param onSent called with the connection and the handler, for uploads
 */
function send(
  pool: ConnectionPool,
  path: string,
  framing: UpstreamRequest['framing'] = { kind: 'none' },
  onSent?: (connection: UpstreamConnection, handler: AnswerHandler) => void,
): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  let connection: UpstreamConnection;
  let status = 0;
  const handler: AnswerHandler = {
    onConnection: (given) => {
      connection = given;
    },
    onHead: (head) => {
      status = head.status;
    },
    onBody: () => {},
    onRead: () => {},
    onEnd: () => resolve({ status, error: null, connection, requests: connection.requests }),
    onError: (error) => resolve({ status, error, connection, requests: connection?.requests }),
    onUploadDrained: () => {},
  };
  const method = framing.kind === 'none' ? 'GET' : 'POST';
  pool.send({ method, head: `${method} ${path} HTTP/1.1\r\nhost: up\r\n`, framing, body: null }, handler);
  onSent?.(connection!, handler);
  return promise;
}

const ends: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const end of ends.splice(0).reverse()) await end();
});

async function start(): Promise<{ pool: ConnectionPool; sockets: Socket[]; server: Server }> {
  const sockets: Socket[] = [];
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    if (request.url === '/reset') request.socket.resetAndDestroy();
    else if (request.url === '/silent') response.flushHeaders();
    else if (request.url === '/kept') response.setHeader('keep-alive', 'timeout=12').end('ok');
    else response.end('ok');
  });
  server.on('connection', (socket) => sockets.push(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const pool = new ConnectionPool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  ends.push(
    () => server.close(),
    () => pool.destroy(),
  );
  return { pool, sockets, server };
}

describe('the connections to an upstream', () => {
  it('are reused, and opened only for simultaneous requests', async () => {
    const { pool, sockets } = await start();
    for (let i = 0; i < 5; i++) {
      const { status, requests } = await send(pool, '/');
      expect({ status, requests }).toEqual({ status: 200, requests: i + 1 });
    }
    expect(sockets).toHaveLength(1);
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => send(pool, '/')));
    expect(outcomes.every(({ status }) => status === 200)).toBe(true);
    expect(new Set(outcomes.map(({ connection }) => connection)).size).toBe(4);
    expect(sockets).toHaveLength(4);
  });

  it('are replaced after a reset, which counts as a stale connection only if the connection was used before', async () => {
    const { pool, sockets } = await start();
    await send(pool, '/');
    const dead = await send(pool, '/reset');
    expect(dead.error).toMatchObject({ code: 'ECONNRESET', isStaleConnection: true });
    expect(dead.requests).toBe(2);
    const next = await send(pool, '/');
    expect({ status: next.status, requests: next.requests }).toEqual({ status: 200, requests: 1 });
    expect(sockets).toHaveLength(2);
    const fresh = await send(pool, '/reset');
    expect(fresh.error).toMatchObject({ code: 'ECONNRESET', isStaleConnection: true });
    const neverUsed = await send(pool, '/reset');
    expect(neverUsed.error).toMatchObject({ code: 'ECONNRESET', isStaleConnection: false });
  });

  it('are tried again after the port was closed', async () => {
    const { pool, server } = await start();
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    for (let i = 0; i < 3; i++) expect((await send(pool, '/')).error).toMatchObject({ code: 'ECONNREFUSED' });
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    expect((await send(pool, '/')).status).toBe(200);
  });

  it('end with the pool while they are in use', async () => {
    const { pool } = await start();
    const pending = send(pool, '/');
    await pool.destroy();
    expect((await pending).error).not.toBeNull();
  });

  it.each([
    ['that is the default', '/', UPSTREAM_IDLE_MS],
    ['that follows from the Keep-Alive header of the upstream', '/kept', 10_000],
  ])('are closed after the idle time %s', async (_name, path, kept_ms) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const { pool, sockets } = await start();
    const { connection } = await send(pool, path);
    vi.advanceTimersByTime(kept_ms - 1);
    expect((await send(pool, path)).connection).toBe(connection);
    vi.advanceTimersByTime(kept_ms);
    expect((await send(pool, path)).connection).not.toBe(connection);
    expect(sockets).toHaveLength(2);
    const closed = new Promise((resolve) => sockets[1]!.once('close', resolve));
    vi.advanceTimersByTime(2 * UPSTREAM_IDLE_MS);
    await closed;
  });

  it('are closed when the upstream has been silent for too long, and not earlier', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const { pool } = await start();
    let isOver = false;
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const outcome = send(pool, '/silent', { kind: 'none' }, (_connection, handler) => {
      handler.onHead = () => resolve();
    }).finally(() => {
      isOver = true;
    });
    await begun;
    vi.advanceTimersByTime(UPSTREAM_TIMEOUT_MS - 1);
    await new Promise(setImmediate);
    expect(isOver).toBe(false);
    vi.advanceTimersByTime(20_000);
    expect((await outcome).error).toMatchObject({ code: 'ETIMEDOUT', isStaleConnection: false });
  });

  it('do not count as silent while the gateway waits for the client', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const { pool } = await start();
    let sent: UpstreamConnection;
    let waiting: AnswerHandler;
    const outcome = send(pool, '/', { kind: 'chunked' }, (connection, handler) => {
      sent = connection;
      waiting = handler;
      connection.write(handler, Buffer.from('a'), false);
    });
    vi.advanceTimersByTime(3 * UPSTREAM_TIMEOUT_MS);
    sent!.write(waiting!, Buffer.from('b'), true);
    expect((await outcome).status).toBe(200);
  });

  it('that are not established in time fail', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    // Reserved for documentation (RFC 5737): no host answers there, whether there is a route to it or not.
    const pool = new ConnectionPool('http://192.0.2.1:9');
    const outcome = send(pool, '/');
    vi.advanceTimersByTime(UPSTREAM_CONNECT_MS);
    expect((await outcome).error!.code).toMatch(/^E(?:TIMEDOUT|NETUNREACH|HOSTUNREACH|CONNREFUSED)$/);
    pool.destroy();
  });

  it('lead to any address of a name that answers', async () => {
    const { server } = await start();
    const { port } = server.address() as AddressInfo;
    // On most machines, the name also has the address ::1, on which the port is closed.
    const pool = new ConnectionPool(`http://localhost:${port}`);
    expect((await send(pool, '/')).status).toBe(200);
    expect((await send(pool, '/')).requests).toBe(2);
    pool.destroy();
  });

  it.each([
    ['more', 'abcdefgh'],
    ['less', 'abc'],
  ])('never transmit %s body than announced', async (_name, text) => {
    const received: Buffer[] = [];
    const server = createTcpServer((socket) => socket.on('data', (bytes) => received.push(bytes)));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const pool = new ConnectionPool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const outcome = await send(pool, '/', { kind: 'length', bytes: 5 }, (connection, handler) => {
      connection.write(handler, Buffer.from(text), true);
    });
    expect(outcome.error).toMatchObject({ code: 'BAD_UPLOAD' });
    expect(Buffer.concat(received).toString()).not.toContain('abc');
    pool.destroy();
    await new Promise((resolve) => server.close(resolve));
  });

  it('are opened for each request of a burst, and then transmit what was uploaded meanwhile', async () => {
    const { pool, server } = await start();
    const bodies: string[] = [];
    server.on('request', (request) => {
      let text = '';
      request.on('data', (bytes: Buffer) => {
        text += bytes.toString();
      });
      request.on('end', () => bodies.push(text));
    });
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        send(pool, '/', { kind: 'length', bytes: 3 }, (connection, handler) => {
          const text = String(i).padStart(3, '0');
          connection.write(handler, Buffer.from(text.slice(0, 1)), false);
          connection.write(handler, Buffer.from(text.slice(1)), true);
        }),
      ),
    );
    expect(outcomes.every(({ status }) => status === 200)).toBe(true);
    // The server answers before it has read the body.
    await expect.poll(() => bodies.length).toBe(100);
    expect(bodies.sort()).toEqual(Array.from({ length: 100 }, (_, i) => String(i).padStart(3, '0')));
  });

  it('are not opened for requests of a burst that were aborted at once', async () => {
    const { pool, sockets } = await start();
    const burst = Array.from({ length: 40 }, (_, i) =>
      send(pool, '/', { kind: 'none' }, (connection, handler) => {
        if (i >= 20) connection.abort(handler);
      }),
    );
    const outcomes = await Promise.all(burst.slice(0, 20));
    expect(outcomes.every(({ status }) => status === 200)).toBe(true);
    expect((await send(pool, '/')).requests).toBe(2);
    expect(sockets).toHaveLength(20);
  });

  it('report the end of the pool to each waiting request of a burst', async () => {
    const { pool, sockets } = await start();
    await send(pool, '/');
    const burst = Array.from({ length: 40 }, () => send(pool, '/'));
    pool.destroy();
    for (const { error } of await Promise.all(burst)) expect(error).not.toBeNull();
    expect((await send(pool, '/')).error).not.toBeNull();
    expect(sockets.length).toBeLessThan(40);
  });

  it('send no events to an aborted request', async () => {
    const { pool, sockets } = await start();
    const { connection } = await send(pool, '/');
    let told = 0;
    send(pool, '/silent', { kind: 'none' }, (_connection, handler) => {
      handler.onError = () => told++;
      handler.onEnd = () => told++;
      connection.abort(handler);
      // Calls with the handler of an aborted request have no effect.
      connection.pause(handler);
      connection.resume(handler);
    });
    expect((await send(pool, '/')).connection).not.toBe(connection);
    expect({ told, sockets: sockets.length }).toEqual({ told: 0, sockets: 2 });
  });
});
