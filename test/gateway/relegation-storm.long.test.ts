/**
 * `attempted = captured + dropped + in_flight`, and every step counted once, in a storm of steps that end in every way,
 * while the counts are requested all the time. SEED=N replays another storm.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush, readStats, waitForStats } from '../fixtures/capture-gateway.ts';
import { openRawClient, rawRequest } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import {
  type RelegatedGateway,
  serverOf,
  startRelegatedGateway,
  stepBody,
  stepBytes,
} from '../fixtures/relegated-gateway.ts';

const SEED = Number(process.env.SEED ?? 1);
const CLIENTS = 12;
const STEPS = 25;

let upstream: RawUpstream;
let folder: string;
let gateway: RelegatedGateway;
beforeAll(async () => {
  upstream = await startRawUpstream((connection) =>
    connection.write(
      messageBytes('HTTP/1.1 200 OK', [['Content-Type', 'application/json']], Buffer.from('{"a":1}')),
    ),
  );
  upstream.keep_requests = false;
  folder = mkdtempSync(join(tmpdir(), 'understudy-storm-'));
  gateway = await startRelegatedGateway({ upstream: upstream.url, folder, timeout_ms: 400 });
});
afterAll(async () => {
  await gateway.close();
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

const TASKS = ['serve a', 'serve b', 'call c', 'decline', 'throw', 'slow 30', 'nonsense unknown tool'];

interface Tally {
  student: number;
  upstream: number;
  left: number;
}

/** A client that sends steps one after the other, and waits only for some of the answers. */
async function storm(prng: Prng, name: string, tally: Tally): Promise<void> {
  for (let at = 0; at < STEPS; at++) {
    const client = await openRawClient(gateway.port);
    const isCrash = at === STEPS >> 1 && name === '0';
    const task = isCrash ? 'crash' : TASKS[prng.below(TASKS.length)]!;
    const label: [string, string][] = prng.below(2) === 0 ? [] : [['x-svc-run', `${name} ${at}`]];
    const body = stepBody(task, {
      stream: prng.below(2) === 0,
      metadata: { user_id: 'x'.repeat(prng.below(90_000)) },
    });
    const bytes = stepBytes(body, label, prng.below(2) === 0 ? 'length' : 'chunked');
    const how = prng.below(10);
    if (how === 0) {
      // Leaves in the middle of its body.
      await client.write(bytes.subarray(0, bytes.length - 20));
      tally.left++;
    } else if (how === 1) {
      // Leaves without waiting for the answer.
      await client.write(bytes);
      tally.left++;
    } else {
      await client.write(bytes);
      const answer = await client.readAnswer();
      expect(answer.status).toBe(200);
      tally[serverOf(answer)]++;
    }
    client.socket.destroy();
  }
}

it(`relegation keeps correct counts through a storm (seed ${SEED})`, async () => {
  const prng = createPrng(SEED);
  const tally: Tally = { student: 0, upstream: 0, left: 0 };
  let isOver = false;
  const storms = Promise.all(
    Array.from({ length: CLIENTS }, (_, at) => storm(createPrng(prng.below(1e9)), String(at), tally)),
  ).finally(() => {
    isOver = true;
  });
  let looks = 0;
  while (!isOver) {
    const { exchanges } = await readStats(gateway.url);
    expect(exchanges.attempted).toBe(exchanges.captured + exchanges.dropped + exchanges.in_flight);
    looks++;
    await nextTick();
  }
  await storms;
  expect(looks).toBeGreaterThan(0);
  // The gateway may not yet have noticed a client that left at once. The gateway accepts connections in order: when it
  // answers this request, it has noticed all clients before.
  const last = await rawRequest(gateway.port, stepBytes(stepBody('decline')));
  tally[serverOf(last)]++;
  const { exchanges, relegation } = await waitForStats(
    gateway.url,
    (stats) => stats.exchanges.in_flight === 0,
  );
  expect(exchanges.dropped).toBe(0);
  await flush(gateway.url);
  const captured = await readCaptured(gateway.db);
  expect(captured.length).toBe(exchanges.captured);
  // A request whose client left early may not count as an exchange. The headers of the others say who served them.
  const all = tally.student + tally.upstream;
  expect(exchanges.attempted).toBeGreaterThanOrEqual(all);
  expect(exchanges.attempted).toBeLessThanOrEqual(all + tally.left);
  const served = captured.filter(({ record }) => record.served_by === 'student');
  expect(served.length).toBe(relegation.served);
  expect(relegation.served).toBeGreaterThanOrEqual(tally.student);
  expect(relegation.served).toBeLessThanOrEqual(tally.student + tally.left);
  expect(relegation.fallback).toBeGreaterThanOrEqual(tally.upstream);
  expect(relegation.served + relegation.fallback).toBeLessThanOrEqual(exchanges.attempted);
  const reasons = Object.values(relegation.fallbacks).reduce((sum, count) => sum + count, 0);
  expect(reasons).toBe(relegation.fallback);
  for (const { record, response } of captured) {
    if (record.served_by === 'student' && !record.aborted) expect(response.length).toBeGreaterThan(0);
    if (record.status === 0) expect(record.aborted).toBe(true);
  }
});
