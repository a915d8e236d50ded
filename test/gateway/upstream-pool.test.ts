/** Connections to an upstream: used again one after the other, opened as many as there are requests, none lost. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { UpstreamError } from '../../src/gateway/upstream/answer-error.ts';
import { ConnectionPool } from '../../src/gateway/upstream/connection-pool.ts';
import type { AnswerHandler, UpstreamConnection } from '../../src/gateway/upstream/upstream-connection.ts';

interface Outcome {
  status: number;
  error: UpstreamError | null;
  connection: UpstreamConnection;
  /** That the connection had carried by the end. */
  requests: number;
}

/** Sends a request and waits for its end. */
function send(pool: ConnectionPool, path: string): Promise<Outcome> {
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
  pool.send(
    { method: 'GET', head: `GET ${path} HTTP/1.1\r\nhost: up\r\n`, framing: { kind: 'none' }, body: null },
    handler,
  );
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
      const { status, requests } = await send(pool, '/');
      expect({ status, requests }).toEqual({ status: 200, requests: i + 1 });
    }
    expect(sockets).toHaveLength(1);
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => send(pool, '/')));
    expect(outcomes.every(({ status }) => status === 200)).toBe(true);
    expect(new Set(outcomes.map(({ connection }) => connection)).size).toBe(4);
    expect(sockets).toHaveLength(4);
  });

  it('come anew after a reset, which says that the connection was stale', async () => {
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
