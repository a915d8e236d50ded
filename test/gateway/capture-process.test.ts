/**
 * The capture process of a real gateway is killed, is stopped, and loses its parent under load. Traffic is not
 * affected, and every exchange is stored once or counted. The load is on the test thread; the gateway and the capture
 * process are separate processes.
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { CliChild } from '../cli/child.ts';
import { findCaptureProcess, isRunning, listDescriptors } from '../fixtures/capture-child.ts';
import {
  flush,
  type GatewayProcess,
  readStats,
  startGatewayProcess,
  stopGatewayProcess,
  waitForStats,
} from '../fixtures/capture-gateway.ts';
import { answerCall, driveRuns, makeCall, readTags } from '../fixtures/capture-traffic.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { makeFolder } from '../storage/folder.ts';

const SEED = Number(process.env.SEED ?? 7);
/** Few kills, because the pause before a restart doubles each time. Storm tests kill more often. */
const KILLS = 3;
/** The number of threads of the services, as in the command line's tests. */
const SERVER_THREADS = Number(process.env.TEST_SERVER_THREADS ?? '1');

let upstream: RawUpstream;
let folder: string;
let db: string;
beforeAll(async () => {
  upstream = await startRawUpstream({ onRequest: answerCall });
  upstream.keep_requests = false;
});
afterAll(() => upstream.close());
beforeEach(() => {
  folder = makeFolder();
  db = join(folder, 'capture.mdb');
});

const start = (env: Record<string, string> = {}) => startGatewayProcess(upstream.url, folder, [], env);
const drive = ({ port }: GatewayProcess, name: string) => driveRuns(port, name, 8, 5);

describe('a kill of the capture process under load', () => {
  for (const FRONT_THREADS of ['1', '2'])
    it(`loses no exchange of a client (${FRONT_THREADS} server threads)`, {
      tags: 'long',
    }, async () => {
      await using started = await start({ FRONT_THREADS });
      const prng = createPrng(SEED);
      const load = drive(started, 'k');
      let pid = 0;
      for (let round = 1; round <= KILLS; round++) {
        pid = await findCaptureProcess(started.url, pid);
        // A batch is lost if several processes in a row are killed during it, so each process stores something first.
        const { captured } = (await readStats(started.url)).exchanges;
        await waitForStats(started.url, ({ exchanges }) => exchanges.captured > captured);
        const target = load.answered.size + 20 + prng.below(80);
        await expect.poll(() => load.answered.size).toBeGreaterThan(target);
        process.kill(pid, 'SIGKILL');
      }
      await findCaptureProcess(started.url, pid);
      const target = load.answered.size + 50;
      await expect.poll(() => load.answered.size).toBeGreaterThan(target);
      await load.end();
      const { exchanges, writer } = await waitForStats(
        started.url,
        (stats) => stats.exchanges.in_flight === 0,
      );
      expect(exchanges).toMatchObject({
        attempted: load.answered.size,
        captured: load.answered.size,
        dropped: 0,
      });
      expect(writer.process!.restarts).toBe(KILLS);
      // The process was killed from outside, so no file is to blame.
      expect(readdirSync(folder).filter((name) => name.includes('damaged'))).toEqual([]);
      const stderr = await stopGatewayProcess(started);
      expect(stderr.match(/"msg":"the capture process ended/g)).toHaveLength(KILLS);
      expect(await readTags(db)).toEqual(load.answered);
    });
});

describe('a capture process that hangs', () => {
  it('delays no request; the queue fills, the status reports it, and capture resumes', {
    tags: 'long',
  }, async () => {
    await using started = await start({ GW_MAX_QUEUE: '20' });
    await makeCall(started.port, { run: 'before', seq: 1, stream: false });
    await flush(started.url);
    const pid = await findCaptureProcess(started.url);
    process.kill(pid, 'SIGSTOP');
    let dropped: number;
    try {
      for (let n = 0; n < 35; n++)
        await makeCall(started.port, { run: `still-${n}`, seq: 1, stream: n % 2 === 0 });
      const full = await waitForStats(started.url, ({ writer }) => (writer.process?.silent_ms ?? 0) > 0);
      dropped = full.exchanges.dropped;
      // Each server thread has its share of the queue, and one share may be full before the others.
      if (SERVER_THREADS === 1) expect(dropped).toBe(15);
      else expect(dropped).toBeGreaterThanOrEqual(15);
      expect(full.exchanges).toMatchObject({ attempted: 36, captured: 1, in_flight: 35 - dropped });
    } finally {
      // A stopped process would not end with the service.
      process.kill(pid, 'SIGCONT');
    }
    const after = await waitForStats(started.url, ({ exchanges }) => exchanges.in_flight === 0);
    expect(after.exchanges).toMatchObject({ captured: 36 - dropped, dropped });
    expect(after.writer.process).toMatchObject({ pid, restarts: 0 });
    await stopGatewayProcess(started);
    expect((await readTags(db)).size).toBe(36 - dropped);
  });
});

describe('the capture process and the serving process', () => {
  it('end together when the serving process is killed; flushed exchanges are stored', {
    tags: 'long',
  }, async () => {
    await using started = await start();
    const load = drive(started, 'p');
    await expect.poll(() => load.answered.size).toBeGreaterThan(100);
    const safe = [...load.answered];
    await flush(started.url);
    const pid = await findCaptureProcess(started.url);
    const ended = load.end();
    started.child.process.kill('SIGKILL');
    await started.child.ended;
    await ended;
    await expect.poll(() => isRunning(pid)).toBe(false);
    const tags = await readTags(db);
    expect(safe.filter((tag) => !tags.has(tag))).toEqual([]);
  });

  it('stop together: every answered exchange is stored, and signals to the whole process group change nothing', {
    tags: 'long',
  }, async () => {
    await using started = await start();
    const load = drive(started, 's');
    await expect.poll(() => load.answered.size).toBeGreaterThan(60);
    const pid = await findCaptureProcess(started.url);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(pid, signal);
    const target = load.answered.size + 20;
    await expect.poll(() => load.answered.size).toBeGreaterThan(target);
    await load.end();
    process.kill(pid, 'SIGTERM');
    expect(await stopGatewayProcess(started)).not.toContain('the capture process ended');
    expect(isRunning(pid)).toBe(false);
    expect(await readTags(db)).toEqual(load.answered);
  });

  it('share no listening socket, and the arguments do not contain the path of the database', {
    tags: 'long',
  }, async () => {
    await using started = await start();
    const pid = await findCaptureProcess(started.url);
    const listening = ['/proc/net/tcp', '/proc/net/tcp6']
      .map((table) => readFileSync(table, 'latin1'))
      .join('\n')
      .split('\n')
      .flatMap((line) => {
        const fields = line.trim().split(/\s+/);
        return fields[3] === '0A' ? [`socket:[${fields[9]}]`] : [];
      });
    expect(listening.length).toBeGreaterThan(0);
    expect(listDescriptors(pid).filter((place) => listening.includes(place))).toEqual([]);
    const words = readFileSync(`/proc/${pid}/cmdline`, 'latin1');
    expect(words).toContain('capture-process');
    expect(words).not.toContain(db);
  });
});

it('a gateway does not start with a folder in the place of the database', async () => {
  mkdirSync(db);
  const child = new CliChild(['gateway', '--port', '0', '--db', db], { env: { DATA_DIR: folder } });
  const { code, stderr } = await child.ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^understudy: the capture database .* cannot be opened: not a file\. [^\n]*\n$/);
});
