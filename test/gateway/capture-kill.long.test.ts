/** kill -9 under load, again and again over one database: nothing that was captured is lost, and capture continues. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { CliChild } from '../cli/child.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush, readStats } from '../fixtures/capture-gateway.ts';
import {
  answerCall,
  driveRuns,
  findCall,
  makeCall,
  requestBody,
  responseBody,
  tagOf,
} from '../fixtures/capture-traffic.ts';
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

/** What must be true of the files, whatever happened. */
async function readAndCheck(): Promise<{ count: number; tags: Set<string> }> {
  const stored = await readCaptured(db);
  const tags = new Set<string>();
  for (const [at, { record, request, response }] of stored.entries()) {
    expect(record.id, 'ids from 1, without holes').toBe(at + 1);
    const call = findCall(request)!;
    const expected = requestBody(call);
    if (!request.equals(expected)) throw new Error(`request of ${record.id} differs`);
    if (!response.equals(responseBody(call))) throw new Error(`response of ${record.id} differs`);
    expect(record).toMatchObject({
      run_id: call.run,
      seq: call.seq,
      status: 200,
      kind: 'turn',
      aborted: false,
      truncated: false,
      request: { bytes: expected.length },
    });
    expect(tags.has(tagOf(call)), 'each once').toBe(false);
    tags.add(tagOf(call));
  }
  return { count: stored.length, tags };
}

/** A gateway in a separate process on the same database. */
async function startChild(serverThreads: number): Promise<{ child: CliChild; url: string; port: number }> {
  const child = new CliChild(['gateway', '--port', '0', '--db', db], {
    env: { GW_UPSTREAM_BASE: upstream.url, DATA_DIR: folder, FRONT_THREADS: String(serverThreads) },
  });
  const [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
  return { child, url, port: Number(new URL(url).port) };
}

const SEED = Number(process.env.SEED ?? 7);

it('three kills under load', async () => {
  const prng = createPrng(SEED);
  /** Answered whole, and flushed afterwards: these must be there for ever. */
  const mustBeThere = new Set<string>();
  let before = 0;

  for (const round of [1, 2, 3]) {
    const { child, url, port } = await startChild(round === 2 ? 2 : 1);
    await using _ = child;
    const answered = new Set<string>();
    let isOver = false;
    let captured = 0;
    const killAfter = 60 + prng.below(150);

    const isReached = Promise.withResolvers<void>();
    // A batch gathers for a while: a quick machine answers all these before one exchange is captured.
    const isFlushed = Promise.withResolvers<void>();
    const load = driveRuns(
      port,
      `r${round}`,
      12,
      6,
      () => isOver,
      (call) => {
        answered.add(tagOf(call));
        if (answered.size >= killAfter) isReached.resolve();
      },
    );
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
    await Promise.race([died, Promise.all([isReached.promise, isFlushed.promise]), load, watch]);
    // The last one dies while it seals a file and opens another.
    if (round === 3) {
      void fetch(`${url}/__gw/rotate`, { method: 'POST' }).catch(() => {});
      const target = answered.size + prng.below(10);
      while (answered.size < target) await readStats(url);
    }
    isOver = true;
    expect(await child.kill()).toMatchObject({ signal: 'SIGKILL', stderr: '' });
    await Promise.all([load, watch, died]);

    const after = await readAndCheck();
    const missing = [...mustBeThere].filter((tag) => !after.tags.has(tag));
    expect(missing, `round ${round}: flushed and not there`).toEqual([]);
    expect(after.count, `round ${round}: counted as captured`).toBeGreaterThanOrEqual(before + captured);
    expect(captured).toBeGreaterThan(0);
    before = after.count;
  }

  // It goes on with the next id, in good order to the end.
  const last = await startChild(1);
  await using _ = last.child;
  await makeCall(last.port, { run: 'after', seq: 1, stream: true });
  expect(await flush(last.url)).toBe(1);
  const stored = await readCaptured(db, before + 1);
  expect(stored.map(({ record }) => [record.id, record.run_id])).toEqual([[before + 1, 'after']]);
  last.child.process.kill('SIGTERM');
  expect(await last.child.ended).toMatchObject({ code: 0 });
  await readAndCheck();
});
