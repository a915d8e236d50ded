/**
 * Requests that the gateway's parser accepts but that no upstream gets, because another parser could read them
 * differently: the client gets the reason, the connection continues, and capture counts nothing. Test thread, gateway
 * included.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BodyMemory } from '../../actors/capture-writer/body-memory.ts';
import { CaptureQueue, type CaptureWriter } from '../../src/gateway/capture/capture-queue.ts';
import { UpstreamError } from '../../src/gateway/upstream/answer-error.ts';
import { areFieldLines, makeRequestHead } from '../../src/gateway/upstream/request-head.ts';
import { startTestGateway, type TestGateway } from '../fixtures/gateway.ts';
import { openRawClient } from '../fixtures/raw-client.ts';
import { headerValue, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

/** A writer that stores nothing and reports that at once. */
const WRITER: CaptureWriter = {
  memory: new BodyMemory(),
  openBatch: () => ({ add: () => {} }),
  append: async () => [],
};

let upstream: RawUpstream;
let queue: CaptureQueue;
let gateway: TestGateway;
beforeEach(async () => {
  upstream = await startRawUpstream({});
  upstream.script = { onRequest: (c) => c.write(messageBytes('HTTP/1.1 200 OK', [], Buffer.from('ok'))) };
  queue = new CaptureQueue(WRITER, { max_queue: 100, max_queue_bytes: 1e6, max_capture_bytes: 1e5 });
  gateway = await startTestGateway(upstream.url, queue);
});
afterEach(async () => {
  await gateway.close();
  await upstream.close();
});

describe('a request that cannot be forwarded', () => {
  const SECRET = 'sk-ant-not-to-be-shown';
  it.each([
    ['a method that is no token', `GE(T /a?${SECRET} HTTP/1.1\r\nhost: gw\r\n\r\n`, 'invalid method'],
    ['DEL in a header', `GET /a HTTP/1.1\r\nhost: gw\r\nx-a: ${SECRET}\x7f\r\n\r\n`, 'invalid header'],
    [
      'the same with a body',
      `POST /a HTTP/1.1\r\nhost: gw\r\nx-a: ${SECRET}\x7f\r\ncontent-length: 5\r\n\r\nabcde`,
      'invalid header',
    ],
    [
      'the same with a chunked body',
      `POST /a HTTP/1.1\r\nhost: gw\r\nx-a: ${SECRET}\x7f\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n`,
      'invalid header',
    ],
  ])(
    '%s: 400 in the words of the messages API, and the connection serves the next one',
    async (_name, bytes, what) => {
      const client = await openRawClient(gateway.port);
      // Twice: the cached result for a head must hold when the head comes again.
      for (const times of [1, 2]) {
        await client.write(bytes);
        const answer = await client.readAnswer();
        expect(answer.status).toBe(400);
        expect(headerValue(answer, 'content-type')).toBe('application/json');
        expect(JSON.parse(answer.body.toString())).toEqual({
          type: 'error',
          error: { type: 'invalid_request_error', message: `The request cannot be forwarded: ${what}` },
        });
        expect(answer.wire.toString('latin1')).not.toContain(SECRET);
        expect(upstream.requests, `after ${times}`).toHaveLength(0);
      }
      expect(queue.counters()).toMatchObject({
        attempted: 0,
        captured: 0,
        dropped: 0,
        in_flight: 0,
        queue_bytes: 0,
      });

      await client.write('GET /next HTTP/1.1\r\nhost: gw\r\n\r\n');
      expect((await client.readAnswer()).status).toBe(200);
      expect(upstream.requests.map((request) => request.start_line)).toEqual(['GET /next HTTP/1.1']);
      client.socket.destroy();
      await queue.settle(5_000);
      expect(queue.counters()).toMatchObject({ attempted: 1, captured: 1, dropped: 0, in_flight: 0 });
    },
  );

  it('does not affect a later one that differs only in the header', async () => {
    const client = await openRawClient(gateway.port);
    for (const [value, status] of [
      ['ab', 200],
      ['a\x7f', 400],
      ['ab', 200],
    ] as const) {
      await client.write(`GET /a HTTP/1.1\r\nhost: gw\r\nx-a: ${value}\r\n\r\n`);
      expect((await client.readAnswer()).status).toBe(status);
    }
    expect(upstream.requests).toHaveLength(2);
    client.socket.destroy();
  });
});

describe('the head of a request', () => {
  it('consists of request line, host, connection and header lines', () => {
    expect(makeRequestHead('POST', '/a', 'b', 'up:1', 'x-a: 1\r\nx-b: \r\nx-c: \t\xe9\r\n')).toBe(
      'POST /a?b HTTP/1.1\r\nhost: up:1\r\nconnection: keep-alive\r\nx-a: 1\r\nx-b: \r\nx-c: \t\xe9\r\n',
    );
    expect(makeRequestHead('HEAD', '/', null, 'up', '')).toBe(
      'HEAD / HTTP/1.1\r\nhost: up\r\nconnection: close\r\n',
    );
  });

  const valid = {
    method: 'GET',
    path: '/a',
    query: 'b' as string | null,
    lines: 'x-a: 1\r\n' as string | null,
  };
  it.each([
    [{ method: '' }, 'invalid method'],
    [{ method: 'GET /' }, 'invalid method'],
    [{ method: 'GET\r\nx:' }, 'invalid method'],
    [{ method: 'G\xe9T' }, 'invalid method'],
    [{ path: '' }, 'invalid path or query'],
    [{ path: 'a' }, 'invalid path or query'],
    [{ path: 'http://elsewhere/' }, 'invalid path or query'],
    [{ path: '/a b' }, 'invalid path or query'],
    [{ path: '/a\r\nx: y' }, 'invalid path or query'],
    [{ path: '/a\n' }, 'invalid path or query'],
    [{ path: '/a\0' }, 'invalid path or query'],
    [{ path: '/\u0100' }, 'invalid path or query'],
    [{ query: 'a b' }, 'invalid path or query'],
    [{ query: 'a\r\nx: y' }, 'invalid path or query'],
    [{ query: '\u0100' }, 'invalid path or query'],
    [{ lines: null }, 'invalid header'],
  ])('with %j is not made', (changed, what) => {
    const { method, path, query, lines } = { ...valid, ...changed };
    const make = () => makeRequestHead(method, path, query, 'up', lines);
    expect(make).toThrow(UpstreamError);
    expect(make).toThrow(expect.objectContaining({ code: 'BAD_REQUEST', message: what }));
  });

  it.each([
    'x-a: 1',
    'x-a: 1\n',
    'x-a: 1\r\n\r\n',
    'x-a: 1\r\n folded\r\n',
    'x a: 1\r\n',
    'x-a : 1\r\n',
    ': 1\r\n',
    'x-a: \x7f\r\n',
    'x-a: \0\r\n',
    'x-a: a\rb\r\n',
    'x-a: \u0100\r\n',
  ])('%j are no header lines', (lines) => {
    expect(areFieldLines(lines)).toBe(false);
  });

  it('may have values that are empty or contain a tab or a byte above 127, or no header lines', () => {
    expect(areFieldLines('')).toBe(true);
    expect(areFieldLines('x-a: 1\r\nx-b: \r\nx-c: \t\xe9\r\n')).toBe(true);
  });
});
