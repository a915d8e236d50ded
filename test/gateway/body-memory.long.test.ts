/**
 * Reuse of the memory of request bodies, and of capture's copies, while some of its bytes may still be in flight.
 * Each word of a body contains its request's number, and the test searches everything that arrives, complete or cut,
 * for other numbers. Upstreams read late, answer before they have read, die, and die on a connection's second
 * request. Clients leave at any time, and the system accepts the gateway's writes late. `npx vitest run
 * test/gateway/body-memory.long.test.ts` with SEED=N runs the requests in another order. Test thread, gateway
 * included.
 */
import { Socket } from 'node:net';
import { setImmediate as nextTick } from 'node:timers/promises';
import { afterEach, expect, it, vi } from 'vitest';
import { BatchReader, ExchangeBatch, SlabPool } from '../../actors/capture-writer/batch.ts';
import { BodyMemory } from '../../actors/capture-writer/body-memory.ts';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { CaptureQueue, type CaptureWriter } from '../../src/gateway/capture/capture-queue.ts';
import { DEFAULTS } from '../../src/limits.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { startTestGateway } from '../fixtures/gateway.ts';
import { openRawClient, type RawClient } from '../fixtures/raw-client.ts';
import { headBytes, headerValue, messageBytes, splitBytes } from '../fixtures/raw-message.ts';
import { startRawUpstream, type UpstreamConnection } from '../fixtures/raw-upstream.ts';

const SEED = Number(process.env.SEED ?? 1);
const CLIENTS = 16;
const REQUESTS_EACH = 20;

afterEach(() => {
  vi.restoreAllMocks();
});

function makeBody(number: number, words: number): Buffer {
  return Buffer.from(new Uint32Array(words).fill(number).buffer);
}

/** Whether the bytes are the beginning of the body with this number. */
function isOf(number: number, bytes: Uint8Array): boolean {
  return makeBody(number, Math.ceil(bytes.length / 4))
    .subarray(0, bytes.length)
    .equals(bytes);
}

async function waitTurns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await nextTick();
}

/** Makes the system accept writes to a port only after some turns of the event loop. */
function delayWrites(port: number, prng: Prng): void {
  const write = Socket.prototype.write;
  vi.spyOn(Socket.prototype, 'write').mockImplementation(function (this: Socket, ...args: unknown[]) {
    if (this.remotePort === port && prng.chance(0.7)) {
      this.cork();
      void waitTurns(1 + prng.below(12)).then(() => this.uncork());
    }
    return write.apply(this, args as Parameters<typeof write>);
  });
}

/** Makes a capture queue. Its writer reads and releases each batch, as the real writer does. */
function startCapture(
  take: (exchange: CapturedExchange) => void,
  queueBytesMax: number = DEFAULTS.GW_MAX_QUEUE_BYTES,
): CaptureQueue {
  const memory = new BodyMemory();
  const slabs = new SlabPool();
  const writer: CaptureWriter<ExchangeBatch> = {
    memory,
    openBatch: () => new ExchangeBatch(slabs, memory),
    append: async (batch) => {
      await waitTurns(5);
      new BatchReader().read(batch.take()).forEach(take);
      batch.release();
      return [];
    },
  };
  return new CaptureQueue(writer as CaptureWriter, {
    max_queue: DEFAULTS.GW_MAX_QUEUE,
    max_queue_bytes: queueBytesMax,
    max_capture_bytes: DEFAULTS.GW_MAX_CAPTURE_BYTES,
  });
}

const HOWS = ['ok', 'late', 'early', 'dies', 'stale'] as const;

/**
 * Each row: a name, and GW_MAX_QUEUE_BYTES. The small limit ends the capture of some exchanges in the middle, including
 * all of the longest ones, so that other exchanges reuse their memory.
 */
const ROOMS: [string, number][] = [
  ['room for all', DEFAULTS.GW_MAX_QUEUE_BYTES],
  ['room for some', 1 << 20],
];

it.each(ROOMS)('no client receives bytes of another client, with %s', async (_name, queueBytesMax) => {
  const prng = createPrng(SEED);
  const seen = { whole: 0, cut: 0, again: 0, captured: 0, left: 0 };
  const wrong: string[] = [];
  const check = (what: string, number: number, bytes: Uint8Array): void => {
    if (!isOf(number, bytes)) wrong.push(`${what} ${number}`);
  };

  const upstream = await startRawUpstream({});
  upstream.keep_requests = false;
  const tried = new Set<number>();
  const reply = (connection: UpstreamConnection, number: number): Promise<void> =>
    connection.write(
      messageBytes(
        'HTTP/1.1 200 OK',
        [['x-number', String(number)]],
        makeBody(number, [10, 9_000, 60_000][number % 3]!),
        { framing: number % 2 === 0 ? 'length' : 'chunked', chunk_sizes: [30_000, 7] },
      ),
    );
  upstream.script = {
    onHead: async (connection, head) => {
      const number = Number(headerValue(head, 'x-number'));
      const how = headerValue(head, 'x-how');
      if (tried.has(number)) seen.again++;
      tried.add(number);
      if (how === 'early') await reply(connection, number);
      else if (how === 'dies') {
        await waitTurns(number % 7);
        connection.reset();
      } else if (how === 'stale' && connection.requests.length > 0) connection.reset();
      else if (how === 'late') {
        connection.pause();
        await waitTurns(number % 40);
        connection.resume();
      }
    },
    onRequest: async (connection, request) => {
      const number = Number(headerValue(request, 'x-number'));
      seen.whole++;
      check('request', number, request.body);
      if (headerValue(request, 'x-how') !== 'early') await reply(connection, number);
    },
  };

  const capture = startCapture(({ status, request_headers, request_body, response_body }) => {
    const number = Number(request_headers[request_headers.indexOf('x-number') + 1]);
    seen.captured++;
    check('captured request', number, request_body);
    if (status === 200) check('captured answer', number, response_body);
  }, queueBytesMax);
  const gateway = await startTestGateway(upstream.url, capture);
  delayWrites(upstream.port, prng);

  const exchange = async (client: RawClient, number: number): Promise<void> => {
    const words = [2_300, 6_000, 30_000, 75_000, 120_000, 400_000][prng.below(6)]!;
    const isChunked = prng.chance(0.3);
    const request = messageBytes(
      'POST /v1/messages HTTP/1.1',
      [
        ['Host', 'gw'],
        ['x-number', String(number)],
        ['x-how', HOWS[prng.below(HOWS.length)]!],
      ],
      makeBody(number, words),
      { framing: isChunked ? 'chunked' : 'length', chunk_sizes: [words * 2] },
    );
    const leavesAfter = prng.chance(0.25) ? prng.below(25) : null;
    const pieces = prng.chance(0.5) ? [request] : splitBytes(request, [1 + prng.below(300_000)]);
    const sent = client.writePieces(pieces);
    if (leavesAfter !== null) {
      await waitTurns(leavesAfter);
      seen.left++;
      client.reset();
      await sent;
      return;
    }
    const answer = await client.readAnswer();
    if (answer.status === 200) check('answer', number, answer.body);
    else expect(answer.status).toBe(502);
    // After an early answer, the connection still receives the rest of the request.
    await sent;
  };

  let next = 1;
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      let client = await openRawClient(gateway.port);
      for (let i = 0; i < REQUESTS_EACH; i++) {
        // An answer that had begun when its upstream ended is cut off.
        await exchange(client, next++).catch((error: unknown) => {
          if (client.closed_how === null) throw error;
        });
        if (client.closed_how !== null || client.socket.destroyed) client = await openRawClient(gateway.port);
      }
      client.reset();
    }),
  );
  await gateway.close();
  await capture.settle(30_000);
  for (const { cut } of upstream.connections) {
    if (cut === null) continue;
    seen.cut++;
    check('cut request', Number(headerValue(cut, 'x-number')), cut.body);
  }
  await upstream.close();

  expect(wrong).toEqual([]);
  expect(upstream.errors).toEqual([]);
  // Each of these cases has occurred often.
  for (const count of Object.values(seen)) expect(count, JSON.stringify(seen)).toBeGreaterThan(5);
  const { dropped, in_flight, queue_bytes } = capture.counters();
  if (queueBytesMax < DEFAULTS.GW_MAX_QUEUE_BYTES) expect(dropped).toBeGreaterThan(5);
  else expect(dropped).toBe(0);
  expect([in_flight, queue_bytes]).toEqual([0, 0]);
});

it('the rest of a request that was answered early is not captured, and the queue holds no bytes afterwards', async () => {
  const upstream = await startRawUpstream({
    onHead: async (connection, { start_line, raw }) => {
      // Waits until everything that was sent has passed the gateway.
      if (start_line.startsWith('POST')) await connection.waitForBytes(raw.length + 40_000);
      await connection.write(messageBytes('HTTP/1.1 200 OK', [], Buffer.from('early')));
    },
  });
  const captured: CapturedExchange[] = [];
  const capture = startCapture((exchange) => captured.push(exchange));
  const gateway = await startTestGateway(upstream.url, capture);
  const body = makeBody(1, 30_000);
  const client = await openRawClient(gateway.port);
  const head = headBytes('POST /v1/messages HTTP/1.1', [
    ['Host', 'gw'],
    ['Content-Length', String(body.length)],
  ]);
  await client.write(Buffer.concat([head, body.subarray(0, 40_000)]));
  expect((await client.readAnswer()).body.toString()).toBe('early');
  const next = headBytes('GET /v1/models HTTP/1.1', [['Host', 'gw']]);
  await client.write(Buffer.concat([body.subarray(40_000), next]));
  expect((await client.readAnswer()).body.toString()).toBe('early');
  client.reset();
  await capture.settle(30_000);
  expect(captured.map(({ request_bytes }) => request_bytes)).toEqual([40_000, 0]);
  expect(capture.counters().queue_bytes).toBe(0);
  await gateway.close();
  await upstream.close();
});
