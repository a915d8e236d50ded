/**
 * A load without a pause. The writer's decisions use a test clock, and the log uses real files. All deferred work must
 * be done in the end, and the files must be hardly larger than on an idle machine.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { CaptureLogAdapter } from '../../actors/capture-writer/adapter.ts';
import { captureWriter } from '../../actors/capture-writer/behaviour.ts';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { ActorKit } from '../../src/runtime/kit.ts';
import { createPrng } from '../../src/std/prng.ts';
import { CaptureLog, type CaptureLogOptions } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const BATCH = 32;
const BATCH_EVERY_MS = 100;
const TURNS = 8;

/** Conversations of small requests; each turn contains all earlier words. */
function* makeConversations(batches: number, seed: number): Generator<CapturedExchange[]> {
  const prng = createPrng(seed);
  const words = Array.from({ length: 2_000 }, () => prng.below(1e9).toString(36));
  const say = (count: number) =>
    Array.from({ length: count }, () => words[prng.below(words.length)]).join(' ');
  let messages: { role: string; content: string }[][] = [];
  for (let batch = 0; batch < batches; batch++) {
    const turn = batch % TURNS;
    if (turn === 0) messages = Array.from({ length: BATCH }, () => [{ role: 'user', content: say(250) }]);
    yield messages.map((said, run) => {
      const answer = say(60);
      const request_body = Buffer.from(JSON.stringify({ model: 'm', messages: said }));
      const response_body = Buffer.from(
        JSON.stringify({ role: 'assistant', content: [{ type: 'text', text: answer }], usage: {} }),
      );
      said.push({ role: 'assistant', content: answer }, { role: 'user', content: say(60) });
      const run_id = `run-${Math.floor(batch / TURNS)}-${run}`;
      return makeExchange({ run_id, seq: turn + 1, request_body, response_body });
    });
  }
}

async function openLog(options: Partial<CaptureLogOptions> = {}): Promise<{ log: CaptureLog; path: string }> {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, ...options });
  onTestFinished(() => log.close());
  return { log, path };
}

/** Appends batches. Between them it does the deferred work for which the writer finds time. */
async function drive(log: CaptureLog, batches: number, seen: (batch: number) => void): Promise<void> {
  const port = new CaptureLogAdapter(async () => ({
    append: (batch) => log.append(batch),
    flush: () => log.flush(),
    rotate: () => log.rotate(),
    tidy: (budgetMs) => log.tidySome(decodeExchange, budgetMs),
    stats: () => log.stats(),
    close: () => log.close(),
  }));
  const kit = new ActorKit(captureWriter);
  let at = 0;
  for (const batch of makeConversations(batches, 5)) {
    kit.ask('append', { slabs: 0 });
    for (const effect of kit.takeEffectsOf('io')) kit.finish(effect, await log.append(batch));
    // The bytes of the slab, which the actor would count, are not counted here; the number of exchanges suffices.
    for (let waited = 0; waited < BATCH_EVERY_MS; waited += 5) {
      kit.advance(5);
      for (const effect of kit.takeEffectsOf('io')) {
        expect(effect.operation).toBe('tidy');
        kit.finish(effect, await port.tidy());
      }
    }
    seen(++at);
  }
}

it('the log packs and indexes under a load that never pauses, so that waiting data stays bounded', async () => {
  const { log, path } = await openLog({ pressed_rate: 1 });
  const batches = 400;
  let mostWaiting = 0;
  let mostFiles = 0;
  await drive(log, batches, (batch) => {
    if (batch % 20 === 0) mostFiles = Math.max(mostFiles, readdirSync(`${path}.raw`).length);
    const { waiting_bytes, waiting_blocks, oldest_s, unindexed } = log.stats().packing;
    expect(waiting_blocks === 0).toBe(waiting_bytes === 0);
    expect(oldest_s).toBeLessThan(600);
    expect(unindexed).toBe(log.stats().last_id - log.stats().indexed_id);
    if (batch < batches / 2) return;
    mostWaiting = Math.max(mostWaiting, waiting_bytes);
  });
  await log.flush();
  // The bound is small compared with 400 batches, each with a block of more than 64 KiB.
  expect(mostWaiting).toBeLessThan(4 << 20);
  expect(log.stats().indexed_id).toBeGreaterThan(1_000);
  expect(mostFiles).toBeLessThanOrEqual(2);
  const reader = CaptureReader.open(path);
  let id = 0;
  for (const batch of makeConversations(batches, 5)) {
    for (const { request_body } of batch) {
      if (++id % 61 === 0) expect(Buffer.compare(reader.body(id, 'request')!, request_body)).toBe(0);
    }
  }
  reader.close();
});

it('bodies take at most twice their size at rest, compressed at once or, under pressure, packed later', async () => {
  const exchanges = [...makeConversations(48, 7)];
  const measure = async (options: Partial<CaptureLogOptions>, size: number): Promise<[number, number]> => {
    const { log, path } = await openLog(options);
    const all = exchanges.flat();
    for (let at = 0; at < all.length; at += size) await log.append(all.slice(at, at + size));
    const waiting = log.stats().packing.waiting_blocks;
    while ((await log.packSome(1_000)) > 0);
    await log.flush();
    const { sealed } = await log.rotate();
    expect(path.length).toBeGreaterThan(0);
    return [waiting, statSync(sealed!).size];
  };
  // Exchanges are appended one at a time, each compressed with its base.
  const [restWaiting, rest] = await measure({ pressed_rate: Number.POSITIVE_INFINITY }, 1);
  // The writer's batches at 380 exchanges a second hold 38.
  const [ordinaryWaiting, ordinary] = await measure({ pressed_rate: Number.POSITIVE_INFINITY }, 38);
  const [fastWaiting, fast] = await measure({ pressed_rate: 1 }, 256);
  expect([restWaiting, ordinaryWaiting]).toEqual([0, 0]);
  expect(fastWaiting).toBeGreaterThan(4);
  expect(ordinary).toBeLessThan(rest * 2);
  expect(fast).toBeLessThan(rest * 2);
});
