/**
 * `attempted = captured + dropped + in_flight` in a storm of exchanges that end in every possible way, while the counts
 * are requested all the time. `npx vitest run test/gateway/capture-storm.long.test.ts` with SEED=N replays another
 * storm.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { classifyRequest } from '../../src/providers/classify.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import {
  type CaptureGateway,
  type CaptureGatewayOptions,
  flush,
  readStats,
  type Stats,
  startCaptureGateway,
  waitForStats,
} from '../fixtures/capture-gateway.ts';
import { openRawClient, type RawClient } from '../fixtures/raw-client.ts';
import { chunkBytes, headBytes, lastChunkBytes, messageBytes } from '../fixtures/raw-message.ts';
import {
  type RawUpstream,
  startRawUpstream,
  UNREACHABLE,
  type UpstreamConnection,
} from '../fixtures/raw-upstream.ts';

const SEED = Number(process.env.SEED ?? 1);

let upstream: RawUpstream;
let folder: string;
beforeAll(async () => {
  upstream = await startRawUpstream({});
  upstream.keep_requests = false;
});
afterAll(() => upstream.close());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-storm-'));
  upstream.script = { onHead: answer };
  upstream.errors.length = 0;
  return () => rmSync(folder, { recursive: true, force: true });
});

/** A body that is larger than each buffer between the client and the provider. */
const BIG = Buffer.alloc(700_000, 'big body ');
const SSE_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';
const FRAME = chunkBytes(Buffer.from('event: ping\ndata: {"type":"ping"}\n\n'));

/**
 * The provider, chosen by the last part of the path. It reacts to the head alone, because some clients never finish
 * their body.
 */
async function answer(connection: UpstreamConnection, head: { start_line: string }): Promise<void> {
  const how = /\/as\/([a-z-]+)/.exec(head.start_line)![1]!;
  const ok = (body: Buffer | string, headers: [string, string][] = []): Promise<void> =>
    connection.write(messageBytes('HTTP/1.1 200 OK', headers, Buffer.from(body)));
  switch (how) {
    case 'json':
      return ok('{"type":"message","model":"m"}', [['Content-Type', 'application/json']]);
    case 'big':
      return ok(BIG);
    case 'nothing':
      return connection.write('HTTP/1.1 204 No Content\r\n\r\n');
    case 'unmodified':
      return connection.write('HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n');
    case 'head':
      return connection.write('HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n');
    case 'hints':
      await connection.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n');
      return ok('hinted');
    case 'stream':
      return connection.writePieces([SSE_HEAD, FRAME, FRAME, FRAME, lastChunkBytes()]);
    case 'trailers':
      return connection.writePieces([SSE_HEAD, FRAME, lastChunkBytes([['X-Sum', '1']])]);
    case 'begun':
      return connection.writePieces([SSE_HEAD, FRAME]);
    case 'silent':
      return;
    case 'early':
      // Answers before the body has arrived, and accepts no more of it.
      await connection.write(
        'HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig',
      );
      return connection.halfClose();
    case 'dies-mute':
      return connection.reset();
    case 'dies-in-head':
      await connection.write('HTTP/1.1 200 OK\r\nContent-Le');
      return connection.halfClose();
    case 'dies-in-body':
      await connection.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789');
      return connection.reset();
    case 'dies-in-stream':
      await connection.writePieces([SSE_HEAD, FRAME]);
      return connection.reset();
    case 'nonsense':
      await connection.write('SMTP ready\r\n\r\n');
      return connection.halfClose();
    default:
      throw new Error(`no such answer: ${how}`);
  }
}

/** Whether the gateway must have counted the request as an exchange, must not have, or may have. */
type Counted = 'yes' | 'no' | 'maybe';

interface Kind {
  counted: Counted;
  run: (client: RawClient) => Promise<void>;
}

const HOST: [string, string] = ['Host', 'gw'];
const get = (path: string, headers: [string, string][] = []): Buffer =>
  headBytes(`GET ${path} HTTP/1.1`, [HOST, ...headers]);
const post = (path: string, body: Buffer | string, chunked = false): Buffer =>
  messageBytes(`POST ${path} HTTP/1.1`, [HOST], Buffer.from(body), {
    framing: chunked ? 'chunked' : 'length',
    chunk_sizes: [7, 5_000],
  });

/** Sends a request and expects a complete answer with that status. */
const expects =
  (status: number, bytes: Buffer | Buffer[], isBodyless = false) =>
  async (client: RawClient): Promise<void> => {
    if (isBodyless) client.expectNoBody();
    await client.writePieces(Buffer.isBuffer(bytes) ? [bytes] : bytes);
    const got = await client.readAnswer();
    if (got.status !== status || !got.complete)
      throw new Error(`expected ${status}, got ${got.start_line} ${got.complete ? '' : '(cut)'}`);
  };
/** Sends a request, waits until the answer has begun (or the request was sent), and resets. */
const leaves =
  (bytes: Buffer | Buffer[], after: RegExp | null) =>
  async (client: RawClient): Promise<void> => {
    await client.writePieces(Buffer.isBuffer(bytes) ? [bytes] : bytes);
    if (after !== null) await client.waitForMatch(after);
    client.reset();
  };
/** Sends a request and expects the connection to end before the answer is complete. */
const isCut =
  (bytes: Buffer) =>
  async (client: RawClient): Promise<void> => {
    await client.write(bytes);
    const got = await client.readAnswer();
    if (got.complete) throw new Error('a clean end of an answer that was cut');
  };

const UPLOAD = post('/v1/as/silent', BIG);
const KINDS: Record<string, Kind> = {
  json: { counted: 'yes', run: expects(200, post('/v1/messages/as/json', '{"messages":[]}')) },
  chunked: { counted: 'yes', run: expects(200, post('/v1/messages/as/json', '{"x":"chunked"}', true)) },
  big_answer: { counted: 'yes', run: expects(200, get('/v1/as/big')) },
  big_request: { counted: 'yes', run: expects(200, post('/v1/as/json', BIG, true)) },
  no_content: { counted: 'yes', run: expects(204, get('/v1/as/nothing')) },
  not_modified: { counted: 'yes', run: expects(304, get('/v1/as/unmodified')) },
  head: { counted: 'yes', run: expects(200, headBytes('HEAD /v1/as/head HTTP/1.1', [HOST]), true) },
  hints: { counted: 'yes', run: expects(200, get('/v1/as/hints')) },
  stream: { counted: 'yes', run: expects(200, get('/v1/as/stream')) },
  trailers: { counted: 'yes', run: expects(200, get('/v1/as/trailers')) },
  answered_before_sent: {
    counted: 'yes',
    run: async (client) => {
      const bytes = post('/v1/as/early', BIG);
      await client.write(bytes.subarray(0, 2_000));
      await client.waitForMatch(/413/);
      // The rest of the request follows an answer that is already complete.
      await client.write(bytes.subarray(2_000, 60_000));
      client.reset();
    },
  },
  gone_before_end_of_body: { counted: 'maybe', run: leaves([UPLOAD.subarray(0, 90)], null) },
  gone_in_upload: { counted: 'maybe', run: leaves([UPLOAD.subarray(0, 300_000)], null) },
  gone_at_once: { counted: 'maybe', run: leaves(get('/v1/as/silent'), null) },
  gone_in_stream: { counted: 'yes', run: leaves(get('/v1/as/begun'), /ping/) },
  gone_in_big_answer: {
    counted: 'yes',
    run: async (client) => {
      client.pause();
      await client.write(get('/v1/as/big'));
      client.resume();
      await client.waitForBytes(2_000);
      client.reset();
    },
  },
  upstream_mute: { counted: 'yes', run: expects(502, post('/v1/as/dies-mute', 'x')) },
  upstream_dies_in_head: { counted: 'yes', run: expects(502, get('/v1/as/dies-in-head')) },
  upstream_dies_in_body: { counted: 'yes', run: isCut(get('/v1/as/dies-in-body')) },
  upstream_dies_in_stream: { counted: 'yes', run: isCut(get('/v1/as/dies-in-stream')) },
  upstream_speaks_nonsense: { counted: 'yes', run: expects(502, get('/v1/as/nonsense')) },
  admin: { counted: 'no', run: expects(200, get('/__gw/routes')) },
  admin_unknown: { counted: 'no', run: expects(404, get('/__gw/nothing')) },
  bad_region: { counted: 'no', run: expects(400, get('/bedrock/nowhere/model/x/converse')) },
  websocket: {
    counted: 'no',
    run: expects(
      426,
      get('/v1/as/json', [
        ['Connection', 'Upgrade'],
        ['Upgrade', 'websocket'],
        ['Content-Length', '0'],
      ]),
    ),
  },
  bad_header_name: { counted: 'no', run: expects(400, get('/v1/as/json', [['X(Y)', '1']])) },
  bad_header_value: { counted: 'no', run: expects(400, get('/v1/as/json', [['X-Y', 'a\x01b']])) },
  bad_framing: {
    counted: 'no',
    run: expects(
      400,
      get('/v1/as/json', [
        ['Content-Length', '1'],
        ['Content-Length', '2'],
      ]),
    ),
  },
};
const NAMES = Object.keys(KINDS);

/** Throws unless the counts are consistent at this moment. */
function checkCounts(stats: Stats): void {
  const { attempted, captured, dropped, in_flight, turns, aborted, by_provider } = stats.exchanges;
  if (attempted !== captured + dropped + in_flight)
    throw new Error(`counts do not add up: ${JSON.stringify(stats)}`);
  const { queue_depth, queue_bytes, errors, written } = stats.writer;
  for (const count of [
    attempted,
    captured,
    dropped,
    in_flight,
    turns,
    aborted,
    queue_depth,
    queue_bytes,
    errors,
  ])
    if (!Number.isInteger(count) || count < 0)
      throw new Error(`a count of ${count}: ${JSON.stringify(stats)}`);
  if (queue_depth > in_flight) throw new Error(`more waiting than in flight: ${JSON.stringify(stats)}`);
  if (turns > captured || aborted > captured || written !== captured || stats.writer.dropped !== dropped)
    throw new Error(`counts contradict each other: ${JSON.stringify(stats)}`);
  const each = Object.values(by_provider).reduce((sum, count) => sum + count.captured, 0);
  if (each !== captured) throw new Error(`providers do not add up: ${JSON.stringify(stats)}`);
}

interface Outcome {
  stats: Stats;
  /** The minimum and maximum number of exchanges that the gateway must have counted. */
  least: number;
  most: number;
  polls: number;
}

/** Lets the storm pass while the counts are requested all the time, and waits until it is over. */
async function storm(
  gateway: CaptureGateway,
  prng: Prng,
  options: { exchanges: number; at_once: number; disturb?: (nth: number) => void | Promise<void> },
): Promise<Outcome> {
  let least = 0;
  let most = 0;
  let started = 0;
  let isOver = false;
  const worker = async (): Promise<void> => {
    while (started < options.exchanges) {
      const nth = started++;
      const kind = KINDS[NAMES[prng.below(NAMES.length)]!]!;
      await options.disturb?.(nth);
      if (kind.counted === 'yes') least++;
      if (kind.counted !== 'no') most++;
      const client = await openRawClient(gateway.port);
      try {
        await kind.run(client);
      } finally {
        client.socket.destroy();
      }
    }
  };
  let polls = 0;
  let previous = 0;
  const watch = async (): Promise<void> => {
    while (!isOver) {
      const stats = await readStats(gateway.url);
      checkCounts(stats);
      if (stats.exchanges.captured < previous) throw new Error('captured went down');
      previous = stats.exchanges.captured;
      polls++;
    }
  };
  // Also checked on this thread between turns of the loop, where no request could read the counts.
  const watchInside = async (): Promise<void> => {
    while (!isOver) {
      const { attempted, captured, dropped, in_flight, queue_bytes, queue_depth } = gateway.queue.counters();
      if (attempted !== captured + dropped + in_flight || in_flight < 0 || queue_bytes < 0 || queue_depth < 0)
        throw new Error(`counts inside: ${JSON.stringify(gateway.queue.counters())}`);
      await nextTick();
    }
  };
  const load = Promise.all(Array.from({ length: options.at_once }, worker)).finally(() => {
    isOver = true;
  });
  await Promise.all([load, watch(), watchInside()]);
  // The gateway may not yet have noticed a client that left at once. The gateway accepts connections in order: when it
  // answers this client, it has noticed all clients before.
  const last = await openRawClient(gateway.port);
  await KINDS.admin!.run(last);
  last.socket.destroy();
  const stats = await waitForStats(gateway.url, (now) => {
    checkCounts(now);
    return now.exchanges.in_flight === 0;
  });
  expect(upstream.errors.filter((error) => !/between the end|bad chunk/.test(error.message))).toEqual([]);
  return { stats, least, most, polls };
}

async function start(options: Partial<CaptureGatewayOptions> = {}): Promise<CaptureGateway> {
  return startCaptureGateway({ upstream: upstream.url, db: join(folder, 'capture.mdb'), ...options });
}

/** No memory is held for exchanges that are over. */
function expectEmpty({ writer }: Stats): void {
  expect(writer).toMatchObject({ queue_depth: 0, queue_bytes: 0 });
}

describe(`the counts add up in a storm (seed ${SEED})`, () => {
  it('if exchanges end in all ways, with room for all', async () => {
    const gateway = await start({ max_capture_bytes: 200_000 });
    const { stats, least, most } = await storm(gateway, createPrng(SEED), { exchanges: 500, at_once: 24 });
    const { attempted, captured, dropped } = stats.exchanges;
    expectEmpty(stats);
    expect(attempted).toBeGreaterThanOrEqual(least);
    expect(attempted).toBeLessThanOrEqual(most);
    expect({ captured, dropped }).toEqual({ captured: attempted, dropped: 0 });
    expect(await flush(gateway.url)).toBe(captured);
    await gateway.close();
    const stored = await readCaptured(join(folder, 'capture.mdb'));
    expect(stored.map(({ record }) => record.id)).toEqual(stored.map((_, at) => at + 1));
    expect(stored).toHaveLength(captured);
    expect(stored.filter(({ record }) => record.aborted)).toHaveLength(stats.exchanges.aborted);
    // The gateway decides by the path. Further facts from bodies are found in the stored copy.
    const isTurnByPath = ({ record }: (typeof stored)[number]) =>
      classifyRequest('default', record.method, record.path).shape !== null;
    expect(stored.filter(isTurnByPath)).toHaveLength(stats.exchanges.turns);
    expect(stored.filter(({ record }) => record.kind === 'turn').length).toBeGreaterThan(0);
    for (const { record, request, response } of stored) {
      if (!record.truncated) {
        expect([request.length, response.length]).toEqual([record.request.bytes, record.response.bytes]);
      }
      expect(record.truncated, record.path).toBe(
        record.request.bytes > 200_000 || record.response.bytes > 200_000,
      );
    }
  });

  it('if the queue holds 3 exchanges and 40 KB', async () => {
    const gateway = await start({ max_queue: 3, max_queue_bytes: 40_000 });
    const { stats } = await storm(gateway, createPrng(SEED + 1), { exchanges: 300, at_once: 24 });
    expectEmpty(stats);
    expect(stats.exchanges.dropped).toBeGreaterThan(0);
    expect(stats.exchanges.captured).toBeGreaterThan(0);
    await gateway.close();
    expect(await readCaptured(join(folder, 'capture.mdb'))).toHaveLength(stats.exchanges.captured);
  });

  it('if writes fail now and then', async () => {
    const gateway = await start({ max_capture_bytes: 200_000 });
    const prng = createPrng(SEED + 2);
    const { stats } = await storm(gateway, prng, {
      exchanges: 300,
      at_once: 24,
      disturb: (nth) => {
        if (nth % 40 === 10) gateway.failCommits(1 + prng.below(2));
      },
    });
    expectEmpty(stats);
    expect(gateway.failedCommits()).toBeGreaterThan(0);
    expect(stats.writer.errors).toBe(gateway.failedCommits());
    expect(stats.exchanges).toMatchObject({ captured: stats.exchanges.attempted, dropped: 0 });
    await gateway.close();
    expect(await readCaptured(join(folder, 'capture.mdb'))).toHaveLength(stats.exchanges.captured);
  });

  it('if the writer is killed in the middle', async () => {
    const gateway = await start({ max_capture_bytes: 200_000 });
    const { stats } = await storm(gateway, createPrng(SEED + 3), {
      exchanges: 300,
      at_once: 24,
      disturb: async (nth) => {
        if (nth !== 150) return;
        const killed = await fetch(`${gateway.url}/__gw/writer/kill`, { method: 'POST' });
        expect(await killed.json()).toEqual({ alive: false });
      },
    });
    expectEmpty(stats);
    expect(stats.writer.alive).toBe(false);
    expect(stats.exchanges.dropped).toBeGreaterThan(50);
    await gateway.close();
    expect(await readCaptured(join(folder, 'capture.mdb'))).toHaveLength(stats.exchanges.captured);
  });

  it('if the writer’s thread dies twice', async () => {
    const gateway = await start({ max_capture_bytes: 200_000 });
    const { stats } = await storm(gateway, createPrng(SEED + 4), {
      exchanges: 400,
      at_once: 24,
      disturb: async (nth) => {
        // A thread that has not restarted yet cannot be ended again.
        for (const [at, times] of [
          [100, 1],
          [250, 2],
        ] as const)
          while (nth === at && gateway.crashes < times) await gateway.threads.crash(0).then(() => nextTick());
      },
    });
    expectEmpty(stats);
    expect(gateway.crashes).toBe(2);
    await gateway.close();
    const rows = (await readCaptured(join(folder, 'capture.mdb'))).length;
    // The outcome of a batch that was in transit when the thread died is unknown: it counts as dropped, but may be
    // stored.
    expect(rows).toBeGreaterThanOrEqual(stats.exchanges.captured);
    expect(rows).toBeLessThanOrEqual(stats.exchanges.captured + stats.exchanges.dropped);
  });
});

it('a request to a provider whose port is closed gets a 502, and is stored', async () => {
  const gateway = await start({ upstream: UNREACHABLE });
  const client = await openRawClient(gateway.port);
  await expects(502, post('/v1/messages', '{}'))(client);
  client.socket.destroy();
  expect(await flush(gateway.url)).toBe(1);
  await gateway.close();
  const [stored] = await readCaptured(join(folder, 'capture.mdb'));
  expect(stored!.record).toMatchObject({ status: 502, kind: 'turn', aborted: false, first_byte_ms: null });
});
