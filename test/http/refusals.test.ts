/** A refused message ends its own connection with everything that follows there, and no other connection. */
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { raiseParserHeadLimit } from '../../src/config.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import { startServer } from '../../src/http/server.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;

let server: HttpServer;
let served: string[];
const sockets: Socket[] = [];

beforeEach(async () => {
  raiseParserHeadLimit();
  served = [];
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    onStream: (stream) => {
      served.push(stream.head.path);
      stream.reply(200, '', stream.head.path);
    },
    describeError: (_status, message) => message,
  });
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await server.drain(1_000);
});

interface Client {
  socket: Socket;
  text(): string;
  isOver(): boolean;
}

async function open(): Promise<Client> {
  const socket = connect(server.port, '127.0.0.1');
  sockets.push(socket);
  let text = '';
  let isOver = false;
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.on('close', () => {
    isOver = true;
  });
  const client = { socket, text: () => text, isOver: () => isOver };
  // The first request opens the connection. The server then reads the next bytes of all connections in one turn.
  socket.write(get('/hello'));
  await vi.waitFor(() => expect(text).toContain('/hello'), { timeout: PATIENCE_MS });
  return client;
}

const INVALID = '/\xff HTTP/1.1\r\nhost: x\r\n';

it.each([
  ['a GET', `GET ${INVALID}\r\n`],
  ['a GET with one behind it', `GET ${INVALID}\r\n${get('/behind')}`],
  ['a GET with part of one behind it', `GET ${INVALID}\r\nGET /behind HTTP/1.1\r\nho`],
  ['a GET behind a good one', `${get('/hello')}GET ${INVALID}\r\n${get('/behind').repeat(3)}`],
  [
    'a body with many requests behind it',
    `POST ${INVALID}content-length: 3\r\n\r\nabc${get('/behind').repeat(5)}`,
  ],
  ['a HEAD', `HEAD ${INVALID}\r\n`],
  ['a HEAD with many requests behind it', `HEAD ${INVALID}\r\n${get('/behind').repeat(5)}`],
])('%s that is refused costs no other client a request', async (_name, refused) => {
  const bad = await Promise.all(Array.from({ length: 4 }, open));
  const good = await Promise.all(Array.from({ length: 8 }, open));
  for (const [at, { socket }] of good.entries()) {
    if (at % 2 === 0) bad[at / 2]!.socket.write(refused, 'latin1');
    socket.write(get(`/good-${at}`));
  }
  await vi.waitFor(
    () => {
      for (const [at, { text, isOver }] of good.entries()) {
        expect(isOver(), `/good-${at} was cut off`).toBe(false);
        expect(text()).toContain(`/good-${at}`);
      }
    },
    { timeout: PATIENCE_MS },
  );
  // The last request is served after the server has read everything that was sent before it.
  for (const { socket } of bad) if (socket.writable) socket.write(get('/behind'));
  good[0]!.socket.write(get('/last'));
  await vi.waitFor(() => expect(served).toContain('/last'), { timeout: PATIENCE_MS });
  expect(served).not.toContain('/behind');
});

it('a refused HEAD gets its status, and its connection ends at once', async () => {
  const [bad, good] = await Promise.all([open(), open()]);
  let isEnded = false;
  bad.socket.on('end', () => {
    isEnded = true;
  });
  bad.socket.write(`HEAD ${INVALID}\r\n`, 'latin1');
  await vi.waitFor(() => expect(bad.text()).toMatch(/400 Bad Request\r\n(?:.+\r\n)+\r\n$/), {
    timeout: PATIENCE_MS,
  });
  for (const line of ['Content-Length: \\d+', 'Connection: close'])
    expect(bad.text()).toMatch(new RegExp(`\r\n${line}\r\n`));
  // The answer to this request shows that the server has handled the other connection in the same turn.
  for (let at = 0; at < 3; at++) {
    good.socket.write(get(`/good-${at}`));
    await vi.waitFor(() => expect(good.text()).toContain(`/good-${at}`), { timeout: PATIENCE_MS });
  }
  expect(isEnded).toBe(true);
});
