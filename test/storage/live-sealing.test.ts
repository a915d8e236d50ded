/** The live file is sealed by size and age, and returns unneeded space. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { createPrng } from '../../src/std/prng.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { isDueForSealing, SEAL_LIMITS, sealWhenDue } from '../../src/storage/capture/live-sealing.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const DAY_MS = 86_400_000;

it.each([
  ['large', SEAL_LIMITS.bytes, 0, 0, true],
  ['nearly large', SEAL_LIMITS.bytes - 1, 0, 0, false],
  ['old', SEAL_LIMITS.old_bytes, DAY_MS, 0, true],
  ['old and small', SEAL_LIMITS.old_bytes - 1, 100 * DAY_MS, 0, false],
  ['without an exchange', SEAL_LIMITS.bytes, null, 0, false],
  ['large, while the index lacks much', SEAL_LIMITS.bytes, 0, 10_001, false],
  ['twice as large, while the index lacks much', 2 * SEAL_LIMITS.bytes, 0, 10_001, true],
])('a file that is %s', (_how, bytes, ageMs, unindexed, isDue) => {
  expect(isDueForSealing(bytes, ageMs, unindexed)).toBe(isDue);
});

it('a small file is sealed by age alone if `any_ms` is set', () => {
  const limits = { ...SEAL_LIMITS, any_ms: 60_000 };
  expect(isDueForSealing(1, 59_999, 0, limits)).toBe(false);
  expect(isDueForSealing(1, 60_000, 0, limits)).toBe(true);
  expect(isDueForSealing(1, null, 0, limits)).toBe(false);
});

it('a large old file is sealed, takes no more space than before, and can be read', {
  timeout: 60_000,
}, async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: false, decode: decodeExchange });
  onTestFinished(() => log.close());
  const limits = { ...SEAL_LIMITS, old_bytes: 2 << 20 };
  const prng = createPrng(7);
  const startedMs = 1_760_000_000_000;
  const bodyOf = () => Buffer.from(Array.from({ length: 1 << 17 }, () => prng.below(256)));
  const bodies: Buffer[] = [];
  while (log.stats().bytes < limits.old_bytes) {
    const body = bodyOf();
    bodies.push(body);
    await log.append([
      makeExchange({ run_id: 'r', started_at_ms: startedMs, request_body: body, shape: null }),
    ]);
  }
  const soon = createManualClock(startedMs + DAY_MS - 1);
  expect(await sealWhenDue(log, limits, soon)).toBe(false);
  const before = log.stats().bytes;
  expect(await sealWhenDue(log, limits, createManualClock(startedMs + DAY_MS))).toBe(true);
  const [sealed] = listSealed(path);
  expect(statSync(sealed!.path).size).toBeLessThanOrEqual(before);
  expect(log.stats().bytes).toBeLessThan(1 << 20);
  const reader = CaptureReader.open(sealed!.path);
  onTestFinished(() => reader.close());
  expect(reader.range()).toEqual({ first_id: 1, last_id: bodies.length, indexed_id: bodies.length });
  expect(Buffer.compare(reader.body(bodies.length, 'request')!, bodies.at(-1)!)).toBe(0);
});
