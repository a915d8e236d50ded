/** kill -9 under load, again and again over one database: nothing that was captured is lost, and capture continues. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush, readStats, startGatewayProcess, stopGatewayProcess } from '../fixtures/capture-gateway.ts';
import { answerCall, driveRuns, makeCall, readTags } from '../fixtures/capture-traffic.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

let upstream: RawUpstream;
let folder: string;
let db: string;
beforeAll(async () => {
  upstream = await startRawUpstream(answerCall);
  upstream.keep_requests = false;
  folder = mkdtempSync(join(tmpdir(), 'understudy-kill-'));
  db = join(folder, 'capture.mdb');
});
afterAll(async () => {
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

const startChild = (serverThreads: number) =>
  startGatewayProcess(upstream.url, folder, [], { FRONT_THREADS: String(serverThreads) });

const SEED = Number(process.env.SEED ?? 7);

it('every flushed exchange survives three kills under load', async () => {
  const prng = createPrng(SEED);
  /** Calls with complete answers that were flushed afterwards: these must never be lost. */
  const mustBeThere = new Set<string>();
  let before = 0;

  for (const round of [1, 2, 3]) {
    await using started = await startChild(round === 2 ? 2 : 1);
    const { child, url, port } = started;
    let isOver = false;
    let captured = 0;
    const killAfter = 60 + prng.below(150);

    const isReached = Promise.withResolvers<void>();
    // The kill also waits for a flush: a batch is collected for a while, so a fast machine may answer that many calls
    // before one exchange is captured.
    const isFlushed = Promise.withResolvers<void>();
    const { answered, over, end } = driveRuns(port, `r${round}`, 12, 6, (count) => {
      if (count >= killAfter) isReached.resolve();
    });
    const watch = (async () => {
      for (let polls = 1; !isOver; polls++) {
        try {
          const stats = await readStats(url);
          const { attempted, dropped, in_flight } = stats.exchanges;
          captured = stats.exchanges.captured;
          expect(attempted).toBe(captured + dropped + in_flight);
          if (polls % 5 !== 0) continue;
          const safe = [...answered];
          captured = await flush(url);
          for (const tag of safe) mustBeThere.add(tag);
          if (safe.length > 0) isFlushed.resolve();
        } catch (error) {
          if (!isOver) throw error;
        }
      }
    })();
    const died = child.ended.then(({ code, signal, stderr }) => {
      if (!isOver) throw new Error(`ended by itself: ${code ?? signal}\n${stderr}`);
    });
    await Promise.race([died, Promise.all([isReached.promise, isFlushed.promise]), over, watch]);
    // The last process is killed while it seals a file and opens another.
    if (round === 3) {
      void fetch(`${url}/__gw/rotate`, { method: 'POST' }).catch(() => {});
      const target = answered.size + prng.below(10);
      while (answered.size < target) await readStats(url);
    }
    isOver = true;
    const ended = end();
    expect(await child.kill()).toMatchObject({ signal: 'SIGKILL', stderr: '' });
    await Promise.all([ended, watch, died]);

    const stored = await readTags(db);
    const missing = [...mustBeThere].filter((tag) => !stored.has(tag));
    expect(missing, `round ${round}: flushed and not there`).toEqual([]);
    expect(stored.size, `round ${round}: counted as captured`).toBeGreaterThanOrEqual(before + captured);
    expect(captured).toBeGreaterThan(0);
    before = stored.size;
  }

  // Capture continues with the next id, without gaps.
  await using last = await startChild(1);
  await makeCall(last.port, { run: 'after', seq: 1, stream: true });
  expect(await flush(last.url)).toBe(1);
  const stored = await readCaptured(db, before + 1);
  expect(stored.map(({ record }) => [record.id, record.run_id])).toEqual([[before + 1, 'after']]);
  await stopGatewayProcess(last);
  await readTags(db);
});
