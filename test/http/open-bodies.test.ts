/** Request bodies in flight: how much memory they may use together, and the cost of one-byte pieces. */
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { raiseParserHeadLimit } from '../../src/config.ts';
import { type CollectedRequest, OPEN_BODY_BYTES_MIN, serveApi } from '../../src/http/api-listener.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import type { HttpStream } from '../../src/http/http-stream.ts';
import { startServer } from '../../src/http/server.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const CAP = 300_000;
const OPEN = 400_000;

let server: HttpServer;
/** The streams of requests in progress, by path. */
let streams: Map<string, HttpStream>;
let arrived: Map<string, number>;
let bodies: Map<string, Buffer>;
const sockets: Socket[] = [];

function dispatch({ path, body, oversized, crowded_out }: CollectedRequest) {
  bodies.set(path, Buffer.from(body));
  const status = oversized === true ? 413 : crowded_out === true ? 503 : 200;
  return { status, headers: [], body: `${path} has ${body.length}` };
}

beforeEach(async () => {
  raiseParserHeadLimit();
  streams = new Map();
  arrived = new Map();
  bodies = new Map();
  const serve = serveApi(dispatch, { max_body_bytes: CAP, open_bodies_bytes: OPEN });
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    onStream: (stream) => {
      const { path } = stream.head;
      const count = (piece: Buffer) => arrived.set(path, (arrived.get(path) ?? 0) + piece.length);
      streams.set(path, stream);
      for (const piece of stream.received) count(piece);
      serve(stream);
      const { onBody } = stream.events;
      if (onBody === undefined) return;
      stream.events.onBody = (piece, isLast) => {
        onBody(piece, isLast);
        count(piece);
      };
    },
    describeError: (_status, message) => message,
  });
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await server.drain(1_000);
});

const until = (check: () => void) => vi.waitFor(check, { timeout: PATIENCE_MS, interval: 5 });

interface Upload {
  socket: Socket;
  text(): string;
  /** Sends more of the body; returns once the server has it. */
  send(bytes: number): Promise<void>;
}

function open(path: string, announced: number): Upload {
  const socket = connect(server.port, '127.0.0.1');
  sockets.push(socket);
  let text = '';
  let sent = 0;
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${announced}\r\n\r\n`);
  return {
    socket,
    text: () => text,
    send: async (bytes) => {
      sent += bytes;
      socket.write(Buffer.alloc(bytes, 'x'));
      await until(() => expect(arrived.get(path)).toBe(sent));
    },
  };
}

it('the oldest body is refused when all bodies take too much memory, and its connection stays open', async () => {
  const first = open('/first', CAP);
  await first.send(200_000);
  const second = open('/second', CAP);
  await second.send(200_000);
  expect(bodies.size).toBe(0);
  const third = open('/third', 100_000);
  await third.send(90_000);
  await until(() => expect(first.text()).toContain('/first has 0'));
  expect(first.text()).toContain('HTTP/1.1 503 ');
  await second.send(100_000);
  await third.send(10_000);
  await until(() => expect(second.text()).toContain('/second has 300000'));
  await until(() => expect(third.text()).toContain('/third has 100000'));
  // The rest of an abandoned body is read and dropped.
  first.socket.write(Buffer.alloc(100_000, 'x'));
  first.socket.write('GET /next HTTP/1.1\r\nhost: x\r\n\r\n');
  await until(() => expect(first.text()).toContain('/next has 0'));
});

it('bodies stop counting when they are answered, too large, or abandoned by their clients', async () => {
  for (const path of ['/answered-1', '/answered-2', '/answered-3']) {
    const answered = open(path, 200_000);
    await answered.send(190_000);
    await answered.send(10_000);
    await until(() => expect(answered.text()).toContain(`${path} has 200000`));
  }
  const large = connect(server.port, '127.0.0.1');
  sockets.push(large);
  large.on('error', () => {});
  large.write('POST /large HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
  large.write(`${(CAP + 1).toString(16)}\r\n${'x'.repeat(CAP + 1)}\r\n`);
  await until(() => expect(arrived.get('/large')).toBe(CAP + 1));
  const left = open('/left', CAP);
  await left.send(200_000);
  left.socket.destroy();
  await until(() => expect(streams.get('/left')!.closed).toBe(true));
  const first = open('/first', 200_000);
  await first.send(199_999);
  const second = open('/second', 200_000);
  await second.send(199_999);
  await first.send(1);
  await second.send(1);
  await until(() => expect(first.text()).toContain('/first has 200000'));
  await until(() => expect(second.text()).toContain('/second has 200000'));
});

it('small bodies are accepted even if together they exceed the bound', async () => {
  const paths = Array.from({ length: 12 }, (_, at) => `/small-${at}`);
  const small = paths.map((path) => open(path, OPEN_BODY_BYTES_MIN));
  await Promise.all(small.map(({ send }) => send(OPEN_BODY_BYTES_MIN - 1)));
  await Promise.all(small.map(({ send }) => send(1)));
  for (const [at, path] of paths.entries())
    await until(() => expect(small[at]!.text()).toContain(`${path} has ${OPEN_BODY_BYTES_MIN}`));
});

it('a body in pieces of one byte is joined without keeping the pieces', async () => {
  const body = Array.from({ length: 20_000 }, (_, at) => String.fromCharCode(32 + (at % 90))).join('');
  const socket = connect(server.port, '127.0.0.1');
  sockets.push(socket);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.write('POST /bytes HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n \r\n');
  // Waits until the first byte has been handed over, because earlier bytes do not count.
  await until(() => expect(arrived.get('/bytes')).toBe(1));
  for (const byte of body.slice(1)) socket.write(`1\r\n${byte}\r\n`);
  await until(() => expect(arrived.get('/bytes')).toBe(body.length));
  expect(streams.get('/bytes')!.received.length).toBeLessThan(64 + body.length / 64);
  socket.write('0\r\n\r\n');
  await until(() => expect(text).toContain(`/bytes has ${body.length}`));
  expect(bodies.get('/bytes')!.toString()).toBe(body);
});
