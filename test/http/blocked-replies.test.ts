/**
 * Replies to clients that read slower than the server writes: every byte arrives once and in order, in any pieces that
 * the system accepts, even if the request's body had to wait meanwhile. Test thread, server included.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { setImmediate as nextTick } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import { raiseParserHeadLimit } from '../../src/config.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import type { HttpStream } from '../../src/http/http-stream.ts';
import { startServer } from '../../src/http/server.ts';

const MIB = 1024 * 1024;

let server: HttpServer;
afterEach(() => server.drain(0));

/** Starts a server, and a request to it that announces this many bytes. @returns the request and its stream */
async function open(bodyBytes: number): Promise<[ClientRequest, HttpStream]> {
  raiseParserHeadLimit();
  const { promise, resolve } = Promise.withResolvers<HttpStream>();
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    onStream: resolve,
    describeError: (_status, message) => message,
  });
  const client = request({
    port: server.port,
    host: '127.0.0.1',
    method: 'POST',
    headers: { 'content-length': bodyBytes },
  });
  client.flushHeaders();
  if (bodyBytes === 0) client.end();
  else client.write('x');
  return [client, await promise];
}

/** A part of a body in which each word contains its own position. */
function cut(from: number, to: number): Buffer {
  const first = from >>> 2;
  const words = Uint32Array.from({ length: (to >>> 2) - first + 1 }, (_, i) => first + i);
  return Buffer.from(words.buffer).subarray(from - first * 4, to - first * 4);
}

/** Reads an answer to its end. @returns its length and a hash of it */
async function readAll(answer: IncomingMessage): Promise<[number, string]> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of answer) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return [bytes, hash.digest('hex')];
}

/** Sizes of chunks that are written together: all, none, or all but the last fit into the library's buffer. */
const FLUSHES = [
  [10_000, 10_000],
  [14_000, 7_500, 20_000],
  [40_000],
  [16_352, 16_353],
  [1, 60_000, 3],
  [5_000, 5_000, 5_000],
];

it('a chunked reply arrives whole at a client that reads slowly', async () => {
  const [client, stream] = await open(0);
  let drained: PromiseWithResolvers<void> | null = null;
  let blocks = 0;
  stream.events = {
    onBlocked: () => {
      blocks++;
      drained = Promise.withResolvers<void>();
    },
    onDrained: () => drained?.resolve(),
  };
  const hash = createHash('sha256');
  let bytes = 0;
  const answered = once(client, 'response') as Promise<[IncomingMessage]>;
  stream.writeHead('200 OK', '', { kind: 'chunked' });
  let read: Promise<[number, string]> | null = null;
  for (let round = 0; bytes < 48 * MIB; round++) {
    for (const size of FLUSHES[round % FLUSHES.length]!) {
      const chunk = cut(bytes, bytes + size);
      hash.update(chunk);
      bytes += size;
      stream.write(chunk);
    }
    stream.flush();
    if (drained === null) continue;
    // The client begins to read only after the server has had to wait.
    read ??= answered.then(([answer]) => readAll(answer));
    await (drained as PromiseWithResolvers<void>).promise;
    drained = null;
  }
  stream.end();
  expect(await read).toEqual([bytes, hash.digest('hex')]);
  expect(blocks).toBeGreaterThan(5);
});

it.each([
  ['before the reply', true],
  ['behind the reply', false],
])('a waiting reply continues when a body flows again that was paused %s', async (_name, isFirst) => {
  const length = 48 * MIB;
  const [client, stream] = await open(2);
  const blocked = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  stream.events = {
    onBlocked: () => blocked.resolve(),
    onBody: () => arrived.resolve(),
  };
  if (isFirst) stream.pauseBody();
  const answered = once(client, 'response') as Promise<[IncomingMessage]>;
  stream.writeHead('200 OK', '', { kind: 'length', bytes: length });
  const body = cut(0, length);
  stream.write(body);
  await blocked.promise;
  if (!isFirst) stream.pauseBody();
  await nextTick();
  stream.resumeBody();
  client.end('y');
  await arrived.promise;
  const [answer] = await answered;
  expect(await readAll(answer)).toEqual([length, createHash('sha256').update(body).digest('hex')]);
});
