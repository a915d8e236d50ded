/** A failure of capture has no effect on traffic, and capture recovers by itself when it can. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { findCaptureProcess } from '../fixtures/capture-child.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import {
  type CaptureGateway,
  type CaptureGatewayOptions,
  flush,
  readStats,
  startCaptureGateway,
  startGatewayProcess,
  waitForStats,
} from '../fixtures/capture-gateway.ts';
import { UNSTORABLE_PATH } from '../fixtures/capture-host.ts';
import { answerCall, makeCall, tagOf } from '../fixtures/capture-traffic.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { makeFolder } from '../storage/folder.ts';

let upstream: RawUpstream;
let folder: string;
let db: string;
beforeAll(async () => {
  upstream = await startRawUpstream({});
  upstream.keep_requests = false;
});
afterAll(() => upstream.close());
beforeEach(() => {
  upstream.script = { onRequest: answerCall };
  // Removed after the test's gateway is closed, because the gateway recreates missing files.
  folder = makeFolder();
  db = join(folder, 'capture.mdb');
});

async function start(options: Partial<CaptureGatewayOptions> = {}): Promise<CaptureGateway> {
  const gateway = await startCaptureGateway({ upstream: upstream.url, db, ...options });
  let isClosed = false;
  const close = gateway.close;
  gateway.close = async () => {
    if (isClosed) return;
    isClosed = true;
    await close();
  };
  onTestFinished(() => gateway.close());
  return gateway;
}

let made = 0;
/** Makes calls one after the other; the test fails unless each gets its right answer. @returns their tags */
async function makeCalls(port: number, count: number): Promise<string[]> {
  const tags: string[] = [];
  for (let i = 0; i < count; i++) {
    const call = { run: `run-${made++}`, seq: 1 + (made % 3), stream: made % 2 === 0 };
    await makeCall(port, call);
    tags.push(tagOf(call));
  }
  return tags;
}

/** Tags of the stored exchanges, after a check that the ids have no gaps. */
async function readTags(from_id = 1): Promise<string[]> {
  const stored = await readCaptured(db, from_id);
  expect(stored.map(({ record }) => record.id)).toEqual(stored.map((_, at) => from_id + at));
  return stored.map(({ request }) => /"user_id":"([^"]+)"/.exec(request.toString('latin1'))![1]!);
}

const post = (url: string, path: string): Promise<Response> => fetch(`${url}${path}`, { method: 'POST' });

describe('without room', () => {
  it('a full queue drops new exchanges until it has room again', async () => {
    const gateway = await start({ max_queue: 5 });
    gateway.hold();
    const kept = await makeCalls(gateway.port, 5);
    await makeCalls(gateway.port, 12);
    const full = await readStats(gateway.url);
    expect(full.exchanges).toMatchObject({ attempted: 17, captured: 0, dropped: 12, in_flight: 5 });
    expect(full.writer).toMatchObject({ queue_depth: 5, max_queue: 5, dropped: 12, alive: true });
    gateway.letGo();
    await waitForStats(gateway.url, (stats) => stats.exchanges.captured === 5);
    kept.push(...(await makeCalls(gateway.port, 1)));
    expect(await flush(gateway.url)).toBe(6);
    expect(await readTags()).toEqual(kept);
  });

  it('a used-up byte budget drops new exchanges; a body larger than the budget is forwarded whole', async () => {
    const gateway = await start({ max_queue_bytes: 10_000 });
    gateway.hold();
    await makeCalls(gateway.port, 20);
    const full = await readStats(gateway.url);
    expect(full.exchanges.dropped).toBeGreaterThan(5);
    expect(full.exchanges.in_flight).toBeGreaterThan(1);
    expect(full.writer.queue_bytes).toBeLessThanOrEqual(10_000);
    gateway.letGo();
    await waitForStats(gateway.url, (stats) => stats.exchanges.in_flight === 0);
    upstream.script = {
      onRequest: (connection, { body }) => connection.write(messageBytes('HTTP/1.1 200 OK', [], body)),
    };
    const body = Buffer.alloc(50_000, 'long');
    const answer = await rawRequest(gateway.port, messageBytes('POST /x HTTP/1.1', [['Host', 'gw']], body));
    expect(answer.body.equals(body)).toBe(true);
    const after = await waitForStats(gateway.url, (stats) => stats.exchanges.in_flight === 0);
    expect(after.exchanges.dropped).toBe(full.exchanges.dropped + 1);
    expect(after.writer.queue_bytes).toBe(0);
    await gateway.close();
    expect(await readTags()).toHaveLength(after.exchanges.captured);
  });

  it('a body above GW_MAX_CAPTURE_BYTES is forwarded whole; its beginning is stored and marked as cut off', async () => {
    const gateway = await start({ max_capture_bytes: 10_000 });
    upstream.script = {
      onRequest: (connection, { body }) =>
        connection.write(messageBytes('HTTP/1.1 200 OK', [], Buffer.concat([body, body]))),
    };
    const body = Buffer.from('0123456789abcdef-'.repeat(20_000));
    for (const size of [9_999, 10_000, 10_001, body.length]) {
      const sent = body.subarray(0, size);
      const bytes = messageBytes('POST /x HTTP/1.1', [['Host', 'gw']], sent);
      const answer = await rawRequest(gateway.port, bytes);
      expect(answer.body.equals(Buffer.concat([sent, sent]))).toBe(true);
    }
    // The gateway may notice the end of the long answer only after the end of the next exchange.
    await waitForStats(gateway.url, ({ exchanges }) => exchanges.captured === 4);
    await flush(gateway.url);
    const stored = (await readCaptured(db)).sort((a, b) => a.record.request.bytes - b.record.request.bytes);
    for (const [at, size] of [9_999, 10_000, 10_001, body.length].entries()) {
      const { record, request, response } = stored[at]!;
      const whole = Buffer.concat([body.subarray(0, size), body.subarray(0, size)]);
      expect(record).toMatchObject({
        truncated: true,
        request: { bytes: size },
        response: { bytes: 2 * size },
      });
      expect(request.equals(body.subarray(0, Math.min(size, 10_000)))).toBe(true);
      expect(response.equals(whole.subarray(0, 10_000))).toBe(true);
    }
  });
});

describe('without a writer', () => {
  it('after a kill: flush and rotate answer 409, exchanges are dropped, stored ones remain', {
    tags: 'long',
  }, async () => {
    const gateway = await start();
    const kept = await makeCalls(gateway.port, 3);
    await flush(gateway.url);
    expect((await fetch(`${gateway.url}/__gw/writer/kill`)).status).toBe(405);
    expect((await readStats(gateway.url)).writer.alive).toBe(true);
    const killed = await post(gateway.url, '/__gw/writer/kill');
    expect([killed.status, await killed.json()]).toEqual([200, { alive: false }]);
    await makeCalls(gateway.port, 4);
    for (const path of ['/__gw/flush', '/__gw/rotate']) {
      const refused = await post(gateway.url, path);
      expect(refused.status, path).toBe(409);
      expect(await refused.json()).toMatchObject({ type: 'error', error: { message: expect.any(String) } });
    }
    expect(await post(gateway.url, '/__gw/writer/kill').then((again) => again.json())).toEqual({
      alive: false,
    });
    // The restart of the thread changes nothing: capture stays off until the process restarts.
    await gateway.threads.crash(0);
    await makeCalls(gateway.port, 2);
    const { status, reasons, exchanges, writer } = await readStats(gateway.url);
    expect(writer.alive).toBe(false);
    expect({ status, reasons: reasons.map(({ reason }) => reason) }).toEqual({
      status: 'stopped',
      reasons: ['writer_killed'],
    });
    expect(exchanges.dropped_by_cause).toMatchObject({ writer_killed: 6, queue_full: 0 });
    expect(exchanges).toMatchObject({ attempted: 9, captured: 3, dropped: 6, in_flight: 0 });
    await gateway.close();
    expect(await readTags()).toEqual(kept);
  });

  it('after the thread died: traffic continues, and capture resumes with the new thread', {
    tags: 'long',
  }, async () => {
    const gateway = await start();
    const kept = await makeCalls(gateway.port, 3);
    await flush(gateway.url);
    for (const round of [1, 2]) {
      await gateway.threads.crash(0);
      kept.push(...(await makeCalls(gateway.port, 5)));
      const stats = await waitForStats(gateway.url, ({ exchanges }) => exchanges.in_flight === 0);
      expect(stats.writer.alive).toBe(true);
      expect(stats.exchanges).toMatchObject({ captured: 3 + 5 * round, dropped: 0 });
    }
    expect(await flush(gateway.url)).toBe(13);
    expect((await readTags()).sort()).toEqual(kept.sort());
  });

  it('after the thread died with a batch: that batch counts as dropped, and no other is lost', {
    tags: 'long',
  }, async () => {
    const gateway = await start();
    gateway.hold();
    await makeCalls(gateway.port, 1);
    while (gateway.begunAppends() === 0) await readStats(gateway.url);
    await gateway.threads.crash(0);
    gateway.letGo();
    const kept = await makeCalls(gateway.port, 4);
    const stats = await waitForStats(gateway.url, ({ exchanges }) => exchanges.in_flight === 0);
    expect(stats.exchanges).toMatchObject({ attempted: 5, captured: 4, dropped: 1 });
    expect(stats.writer.errors).toBeGreaterThan(0);
    await flush(gateway.url);
    expect(await readTags()).toEqual(kept);
  });
});

describe('an exchange that makes the writer fail', () => {
  it('is dropped and counted; all others are stored', { tags: 'long' }, async () => {
    const gateway = await start();
    gateway.hold();
    const kept = await makeCalls(gateway.port, 3);
    const bad = messageBytes(
      `POST /v1/messages${UNSTORABLE_PATH} HTTP/1.1`,
      [['Host', 'gw']],
      Buffer.from('{}'),
    );
    for (const round of [1, 2]) {
      await rawRequest(gateway.port, bad);
      kept.push(...(await makeCalls(gateway.port, 4)));
      gateway.letGo();
      const stats = await waitForStats(gateway.url, ({ exchanges }) => exchanges.in_flight === 0);
      expect(stats.exchanges).toMatchObject({ captured: kept.length, dropped: round });
      expect(stats.exchanges.dropped_by_cause).toMatchObject({ unstorable: round, queue_full: 0 });
      expect(stats.exchanges.turns).toBe(kept.length);
      expect(stats.exchanges.by_provider).toEqual({
        anthropic: { captured: kept.length, turns: kept.length },
      });
      expect(stats.writer).toMatchObject({
        errors: round,
        errors_by_cause: { unstorable: round, disk_error: 0 },
      });
      expect(stats).toMatchObject({ status: 'degraded', reasons: [{ reason: 'dropping' }] });
    }
    expect(await flush(gateway.url)).toBe(kept.length);
    expect(await readTags()).toEqual(kept);
  });
});

describe('a writer that does not answer', () => {
  it('is reported as stuck until it answers', async () => {
    const gateway = await start({ stuck_ms: 50 });
    expect(await readStats(gateway.url)).toMatchObject({ status: 'ok', reasons: [] });
    gateway.hold();
    await makeCalls(gateway.port, 1);
    const stuck = await waitForStats(gateway.url, ({ status }) => status !== 'ok');
    expect(stuck).toMatchObject({ status: 'degraded', reasons: [{ reason: 'stuck' }] });
    expect(stuck.writer.oldest_append_ms).toBeGreaterThanOrEqual(50);
    gateway.letGo();
    await waitForStats(gateway.url, ({ status }) => status === 'ok');
  });
});

describe('without a disk', () => {
  it('writes that fail for a while: everything waits and is written afterwards', {
    tags: 'long',
  }, async () => {
    const gateway = await start();
    const kept = await makeCalls(gateway.port, 2);
    await flush(gateway.url);
    gateway.failCommits(-1);
    kept.push(...(await makeCalls(gateway.port, 20)));
    const full = await waitForStats(gateway.url, ({ writer }) => writer.errors >= 2);
    expect(full.exchanges).toMatchObject({ attempted: 22, captured: 2, dropped: 0, in_flight: 20 });
    gateway.failCommits(0);
    await waitForStats(gateway.url, ({ exchanges }) => exchanges.captured === 22);
    kept.push(...(await makeCalls(gateway.port, 2)));
    expect(await flush(gateway.url)).toBe(24);
    expect((await readTags()).sort()).toEqual(kept.sort());
  });

  it('writes that fail until the queue is full: the rest is dropped, and capture resumes', {
    tags: 'long',
  }, async () => {
    const gateway = await start({ max_queue: 10 });
    gateway.failCommits(-1);
    await makeCalls(gateway.port, 30);
    const full = await waitForStats(gateway.url, ({ writer }) => writer.errors >= 2);
    expect(full.exchanges).toMatchObject({ captured: 0, dropped: 20, in_flight: 10 });
    const { queue_full, disk_full } = full.exchanges.dropped_by_cause;
    // Before the first failed write, the state of the disk was unknown.
    expect(queue_full + disk_full).toBe(20);
    expect(full.reasons.map(({ reason }) => reason)).toEqual(['disk_full', 'dropping']);
    gateway.failCommits(0);
    await waitForStats(gateway.url, ({ exchanges }) => exchanges.captured === 10);
    await makeCalls(gateway.port, 1);
    expect(await flush(gateway.url)).toBe(11);
  });

  const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
  it.skipIf(!hasPrlimit)(
    'files cannot grow (RLIMIT_FSIZE), as on a full disk: capture resumes when they can',
    { tags: 'long' },
    async () => {
      await using started = await startGatewayProcess(upstream.url, folder);
      const { child, url, port } = started;
      const writer = await findCaptureProcess(url);
      const limit = (bytes: string): void => {
        execFileSync('prlimit', ['--pid', String(writer), `--fsize=${bytes}:`]);
      };
      const kept = await makeCalls(port, 3);
      await flush(url);
      limit(String(statSync(db).size));
      // Some pages of the file are free, so several exchanges fit before one does not.
      for (let fitting = 0; ; fitting += 25) {
        kept.push(...(await makeCalls(port, 25)));
        const { exchanges } = await waitForStats(
          url,
          (stats) => stats.exchanges.in_flight === 0 || stats.writer.errors > 0,
        );
        if (exchanges.in_flight > 0) break;
        expect(fitting, 'exchanges that fitted into a full file').toBeLessThan(2_000);
      }
      kept.push(...(await makeCalls(port, 10)));
      const full = await readStats(url);
      expect(full.writer.alive).toBe(true);
      expect(full).toMatchObject({ status: 'degraded', reasons: [{ reason: 'disk_full' }] });
      expect(full.writer.errors_by_cause.disk_full).toBeGreaterThan(0);
      expect(full.exchanges.dropped).toBe(0);
      limit('unlimited');
      await waitForStats(url, ({ exchanges }) => exchanges.in_flight === 0);
      kept.push(...(await makeCalls(port, 2)));
      expect(await flush(url)).toBe(kept.length);
      child.process.kill('SIGTERM');
      const { code, stderr } = await child.ended;
      expect(code).toBe(0);
      expect(stderr).toMatch(
        /"reason":"[^"]*capture\.mdb[^"]*","times":1,"msg":"exchanges cannot be stored: /,
      );
      expect(stderr).toContain('"msg":"exchanges are stored again"');
      expect((await readTags()).sort()).toEqual(kept.sort());
    },
  );

  it('the folder is removed: traffic continues, and capture starts in a new one', async () => {
    const gateway = await start();
    await makeCalls(gateway.port, 3);
    await flush(gateway.url);
    rmSync(folder, { recursive: true, force: true });
    await makeCalls(gateway.port, 5);
    const stats = await waitForStats(gateway.url, ({ exchanges }) => exchanges.in_flight === 0);
    expect(stats.exchanges).toMatchObject({ attempted: 8, captured: 8, dropped: 0 });
    expect(existsSync(db)).toBe(true);
    await gateway.close();
    expect(await readTags(4)).toHaveLength(5);
  });
});
