/**
 * Upstreams behind TLS: nothing is sent to one with a wrong certificate, the session is reused, and bodies pass both
 * ways in any split into records. The gateway is a separate process, because the trusted authorities are a setting of
 * the process.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { CliChild } from '../cli/child.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../fixtures/certificate.ts';

const BODY = randomBytes(1_000_000);

interface Seen {
  servername: string | false | null;
  alpn: string | false | null;
  isReused: boolean;
}

let dir: string;
let server: Server;
let port: number;
let requests: string[] = [];
let handshakes: Seen[] = [];
let bytesBeforeTrust = 0;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'understudy-secure-'));
  await writeFile(join(dir, 'ca.pem'), TEST_CERTIFICATE);
  server = createServer({ cert: TEST_CERTIFICATE, key: TEST_KEY }, (request, response) => {
    requests.push(request.url!);
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.url === '/close') response.setHeader('connection', 'close');
      if (request.url === '/dies-when-used-again' && requests.length === 2) {
        request.socket.end();
      } else if (request.url === '/cut') {
        response.writeHead(200, { 'content-length': 10 });
        // TLS is closed properly, but within the announced body.
        response.write('hello', () => request.socket.end());
      } else if (request.url === '/echo') response.end(Buffer.concat(chunks));
      else if (request.url === '/frames') {
        for (let i = 0; i < 500; i++) response.write(`data: ${i}\n\n`);
        response.end();
      } else response.end(BODY);
    });
  });
  server.on('secureConnection', (socket: TLSSocket) => {
    handshakes.push({
      servername: socket.servername,
      alpn: socket.alpnProtocol,
      isReused: socket.isSessionReused(),
    });
    socket.on('data', (bytes) => {
      bytesBeforeTrust += bytes.length;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(dir, { recursive: true, force: true });
});

async function withGateway(
  env: Record<string, string>,
  run: (url: string) => Promise<void>,
  host = 'localhost',
  upstreamPort = port,
): Promise<void> {
  requests = [];
  handshakes = [];
  bytesBeforeTrust = 0;
  const gateway = new CliChild(['gateway', '--port', '0'], {
    cwd: dir,
    env: { DATA_DIR: dir, GW_CAPTURE: 'off', GW_UPSTREAM_BASE: `https://${host}:${upstreamPort}`, ...env },
  });
  try {
    const [, found] = await gateway.waitForOutput(/Gateway\s+http:\/\/[^:]+:(\d+)/);
    await run(`http://127.0.0.1:${found}`);
  } finally {
    await gateway[Symbol.asyncDispose]();
  }
}

describe('an upstream behind TLS', () => {
  it.each(['off', 'on'])(
    'exchanges requests and answers byte for byte, with capture %s',
    { tags: 'long' },
    async (capture) => {
      await withGateway({ NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem'), GW_CAPTURE: capture }, async (url) => {
        const answers = await Promise.all(
          Array.from({ length: 4 }, () => fetch(`${url}/echo`, { method: 'POST', body: BODY })),
        );
        for (const answer of answers) {
          expect(Buffer.from(await answer.arrayBuffer()).equals(BODY)).toBe(true);
        }
        const frames = await (await fetch(`${url}/frames`)).text();
        expect(frames).toBe(Array.from({ length: 500 }, (_, i) => `data: ${i}\n\n`).join(''));
        expect(handshakes.length).toBeLessThanOrEqual(4);
        expect(handshakes[0]).toEqual({ servername: 'localhost', alpn: 'http/1.1', isReused: false });
      });
    },
  );

  it('is asked to resume the session of an earlier connection', { tags: 'long' }, async () => {
    await withGateway({ NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem') }, async (url) => {
      for (let i = 0; i < 3; i++) await (await fetch(`${url}/close`)).arrayBuffer();
      expect(handshakes.map(({ isReused }) => isReused)).toEqual([false, true, true]);
    });
  });

  it('may have an IP address as its name', { tags: 'long' }, async () => {
    await withGateway(
      { NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem') },
      async (url) => {
        expect((await fetch(`${url}/big`)).status).toBe(200);
        expect(handshakes[0]!.servername).toBe(false);
      },
      '127.0.0.1',
    );
  });

  it('receives no byte if its certificate is not trusted', async () => {
    await withGateway({}, async (url) => {
      const answer = await fetch(`${url}/secret`, {
        method: 'POST',
        body: 'x',
        headers: { authorization: 'Bearer k' },
      });
      expect(answer.status).toBe(502);
      expect(await answer.text()).toContain('SELF_SIGNED');
      expect(requests).toEqual([]);
      expect(bytesBeforeTrust).toBe(0);
    });
  });

  it('gets a request again if it closes a used connection instead of answering', {
    tags: 'long',
  }, async () => {
    await withGateway({ NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem') }, async (url) => {
      for (let i = 0; i < 2; i++) {
        const answer = await fetch(`${url}/dies-when-used-again`, { method: 'POST', body: '{}' });
        expect([answer.status, (await answer.arrayBuffer()).byteLength]).toEqual([200, BODY.length]);
      }
      expect(requests.length).toBe(3);
      expect(handshakes.length).toBe(2);
    });
  });

  it('never completes a body at the client if it closes within the body', { tags: 'long' }, async () => {
    await withGateway({ NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem'), GW_CAPTURE: 'on' }, async (url) => {
      const answer = await fetch(`${url}/cut`);
      expect(answer.status).toBe(200);
      await expect(answer.arrayBuffer()).rejects.toThrow();
      await fetch(`${url}/__gw/flush`);
      const stats = await (await fetch(`${url}/__gw/stats`)).json();
      expect(stats).toMatchObject({ exchanges: { attempted: 1, aborted: 1 } });
    });
  });

  it('accepts WebSocket connections as wss:// if its certificate is trusted, and no byte otherwise', {
    tags: 'long',
  }, async () => {
    const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: { threshold: 0 } });
    server.on('upgrade', (request, socket, head) => {
      requests.push(request.url!);
      sockets.handleUpgrade(request, socket, head, (accepted) =>
        accepted.on('message', (data, isBinary) => accepted.send(data, { binary: isBinary })),
      );
    });
    try {
      await withGateway({ NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem'), GW_CAPTURE: 'on' }, async (url) => {
        const client = new WebSocket(`${url.replace('http', 'ws')}/v1/realtime?model=m`);
        await once(client, 'open');
        for (const sent of [Buffer.from('hello'), BODY]) {
          client.send(sent);
          const [got] = (await once(client, 'message')) as [Buffer];
          expect(got.equals(sent)).toBe(true);
        }
        client.close(4_001, 'enough');
        const [code, reason] = (await once(client, 'close')) as [number, Buffer];
        expect([code, String(reason)]).toEqual([4_001, 'enough']);
        expect(requests).toEqual(['/v1/realtime?model=m']);
        expect(handshakes).toEqual([{ servername: 'localhost', alpn: 'http/1.1', isReused: false }]);
      });
      await withGateway({}, async (url) => {
        const client = new WebSocket(`${url.replace('http', 'ws')}/v1/realtime`, {
          headers: { authorization: 'Bearer k' },
        });
        const [error] = (await once(client, 'error').catch((thrown: Error) => [thrown])) as [Error];
        expect(error.message).toContain('502');
        expect([requests, bytesBeforeTrust]).toEqual([[], 0]);
      });
    } finally {
      server.removeAllListeners('upgrade');
      for (const socket of sockets.clients) socket.terminate();
    }
  });

  it('that never ends its handshake is disconnected when the client leaves', { tags: 'long' }, async () => {
    const sockets: Socket[] = [];
    const { promise: hello, resolve: hear } = Promise.withResolvers<void>();
    const { promise: gone, resolve: end } = Promise.withResolvers<void>();
    const mute = createTcpServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      socket.on('close', () => end());
      socket.once('data', () => hear());
    });
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    try {
      await withGateway(
        {},
        async (url) => {
          const leaving = new AbortController();
          const asked = fetch(`${url}/v1/messages`, { method: 'POST', body: '{}', signal: leaving.signal });
          await hello;
          leaving.abort();
          await expect(asked).rejects.toThrow();
          await gone;
        },
        '127.0.0.1',
        (mute.address() as AddressInfo).port,
      );
    } finally {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => mute.close(resolve));
    }
  });
});
