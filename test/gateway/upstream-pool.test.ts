/** Connections to an upstream: used again one after the other, opened as many as there are requests, none lost. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Dispatcher } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { type Connection, ConnectionPool, type PooledHandler } from '../../src/gateway/upstream.ts';

interface Outcome {
  status: number;
  error: Error | null;
  connection: Connection;
  requestsBefore: number;
}

/** Sends a request and waits for its end. */
function send(pool: ConnectionPool, path: string): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  let connection: Connection;
  let status = 0;
  let requestsBefore = -1;
  const handler: PooledHandler = {
    onConnection: (given) => {
      connection = given;
    },
    onRequestStart: () => {
      requestsBefore = connection.socket.requests++;
    },
    onResponseStart: (_controller: Dispatcher.DispatchController, given: number) => {
      status = given;
    },
    onResponseData: () => {},
    onResponseEnd: () => resolve({ status, error: null, connection, requestsBefore }),
    onResponseError: (_controller: Dispatcher.DispatchController | null, error: Error) =>
      resolve({ status, error, connection, requestsBefore }),
  };
  pool.dispatch({ path, method: 'GET' }, handler);
  return promise;
}

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function start(): Promise<{ pool: ConnectionPool; sockets: Socket[]; server: Server }> {
  const sockets: Socket[] = [];
  const server = createServer((request, response) => {
    if (request.url === '/reset') request.socket.resetAndDestroy();
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
  it('are used again, and opened only for requests at the same time', async () => {
    const { pool, sockets } = await start();
    for (let i = 0; i < 5; i++) {
      const { status, requestsBefore } = await send(pool, '/');
      expect({ status, requestsBefore }).toEqual({ status: 200, requestsBefore: i });
      await new Promise(setImmediate);
    }
    expect(sockets).toHaveLength(1);
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => send(pool, '/')));
    expect(outcomes.every(({ status }) => status === 200)).toBe(true);
    expect(new Set(outcomes.map(({ connection }) => connection)).size).toBe(4);
    expect(sockets).toHaveLength(4);
  });

  it('are not lost to requests that cannot be sent', async () => {
    const { pool, sockets } = await start();
    const first = await send(pool, '/');
    await new Promise(setImmediate);
    for (let i = 0; i < 20; i++) {
      const refused = await send(pool, '/with a space');
      expect(refused.error?.message).toMatch(/path/);
      expect(refused.connection).toBe(first.connection);
    }
    expect((await send(pool, '/')).connection).toBe(first.connection);
    expect(sockets).toHaveLength(1);
  });

  it('come anew after a reset, which is noted on the one that had it', async () => {
    const { pool, sockets } = await start();
    await send(pool, '/');
    await new Promise(setImmediate);
    const dead = await send(pool, '/reset');
    expect(dead.error).not.toBeNull();
    expect(dead.requestsBefore).toBe(1);
    const next = await send(pool, '/');
    expect({ status: next.status, requestsBefore: next.requestsBefore }).toEqual({
      status: 200,
      requestsBefore: 0,
    });
    expect(sockets).toHaveLength(2);
  });

  it('are tried anew when nobody listened before', async () => {
    const { pool, server } = await start();
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    for (let i = 0; i < 3; i++) expect((await send(pool, '/')).error).toMatchObject({ code: 'ECONNREFUSED' });
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    expect((await send(pool, '/')).status).toBe(200);
  });

  it('end with the pool, those in use too', async () => {
    const { pool } = await start();
    const pending = send(pool, '/');
    await pool.destroy();
    expect((await pending).error).not.toBeNull();
  });
});
