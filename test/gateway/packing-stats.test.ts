/** The data that waits to be packed, in the stats and on /metrics. */
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { BodyMemory } from '../../actors/capture-writer/body-memory.ts';
import { ProcessMetrics } from '../../src/api/metrics.ts';
import { CaptureControl, type ControlledWriter } from '../../src/gateway/capture/capture-control.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createPrng } from '../../src/std/prng.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';

it('the stats and /metrics show how much waits to be packed and indexed, and since when', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  onTestFinished(() => log.close());
  const prng = createPrng(1);
  const body = () => Buffer.from(Array.from({ length: 400 }, () => prng.below(2 ** 32)).join());
  const batch = Array.from({ length: 60 }, () =>
    makeExchange({ request_body: body(), response_body: body() }),
  );
  await log.append(batch);
  vi.advanceTimersByTime(3_000);
  const writer: ControlledWriter = {
    alive: true,
    memory: new BodyMemory(),
    openBatch: () => ({ add: () => {} }),
    append: async () => [],
    flush: () => log.flush(),
    rotate: () => log.rotate(),
    kill: () => log.close(),
    state: async () => {
      const { bytes, sealed, packing } = log.stats();
      return { bytes, sealed, packing };
    },
  };
  const control = new CaptureControl({ version: '0', db_path: path, max_queue: 1, writer, servers: [] });
  const sources = { servers: () => [], actors: async () => [], capture: () => control.stats() };
  const metrics = new ProcessMetrics(sources, '0');
  const read = async () => {
    const { db, writer } = (await control.stats()) as {
      db: object;
      writer: { packing: Record<string, number>; indexing_behind: Record<string, number> };
    };
    expect(Object.keys(db).sort()).toEqual(['bytes', 'path', 'sealed']);
    return { packing: writer.packing, behind: writer.indexing_behind, text: await metrics.render() };
  };

  const before = await read();
  const bytes = batch.reduce((sum, exchange) => sum + exchange.request_bytes + exchange.response_bytes, 0);
  expect(before.packing).toMatchObject({ oldest_s: 3, unindexed: 60 });
  expect(before.packing.waiting_blocks).toBeGreaterThan(3);
  expect(before.packing.waiting_bytes).toBeGreaterThan(bytes);
  expect(before.packing.share).toBeGreaterThanOrEqual(0.05);
  for (const [name, value] of Object.entries(before.packing)) {
    const shown = name === 'oldest_s' ? 'oldest_seconds' : name;
    if (name !== 'share') expect(before.text).toContain(`understudy_capture_packing_${shown} ${value}\n`);
  }
  expect(before.text).toMatch(/^understudy_capture_packing_share 0\.\d+$/m);
  expect(before.behind).toEqual({ exchanges: 60, seconds: 3 });
  expect(before.text).toContain('understudy_capture_indexing_behind_exchanges 60\n');
  expect(before.text).toContain('understudy_capture_indexing_behind_seconds 3\n');

  while ((await log.tidySome(decodeExchange, 1_000)).done > 0);
  const after = await read();
  expect(after.packing).toMatchObject({ waiting_blocks: 0, waiting_bytes: 0, oldest_s: 0, unindexed: 0 });
  expect(after.behind).toEqual({ exchanges: 0, seconds: 0 });
  expect(after.text).toContain('understudy_capture_packing_waiting_bytes 0\n');
});

it('without capture, flush and rotate name the variable', async () => {
  const control = new CaptureControl({ version: '0', db_path: '', max_queue: 0, writer: null, servers: [] });
  for (const call of [control.flush(), control.rotate()])
    await expect(call).rejects.toMatchObject({
      code: 'capture_stopped',
      message: expect.stringContaining('GW_CAPTURE is off'),
    });
});
