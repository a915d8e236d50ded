/**
 * The memory of exchanges that are bases for later ones. The counted size is its true size, and two exchanges never
 * share memory.
 */
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { MASK } from '../../src/redaction/mask.ts';
import { createPrng } from '../../src/std/prng.ts';
import { BaseCache, type BaseEntry } from '../../src/storage/capture/base-cache.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { NO_FILES } from '../../src/storage/capture/prepared-body.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const NOTHING = Buffer.alloc(0);
const ALONE = { needles: [], packed: NOTHING, shapes: false };
const WITH_KEYS = { ...ALONE, shapes: true };
const SECRETS = {
  texts: [],
  bytes: [],
  packed: NOTHING,
  packed_all: NOTHING,
  alone: ALONE,
  with_keys: WITH_KEYS,
};

function makeEntry(id: number, memory: Buffer, raw: Buffer): BaseEntry {
  const request = { raw, stored: raw, edits: [], keeps_files: false, has_files: false, new_files: NO_FILES };
  return {
    id,
    depth: 0,
    root: id,
    request,
    request_self: {},
    response: null,
    record: null,
    secrets: SECRETS,
    memory,
  };
}

it('only the memory of dropped bodies is reused', () => {
  const cache = new BaseCache(4 << 20);
  const prng = createPrng(5);
  const buffers = new Set<ArrayBufferLike>();
  for (let id = 1; id <= 800; id++) {
    const bytes = prng.below(2) === 0 ? 300_000 + prng.below(5_000) : 1 + prng.below(60_000);
    const memory = cache.takeMemory(bytes)!;
    expect(memory.length).toBeGreaterThanOrEqual(bytes);
    memory.fill(id % 256);
    buffers.add(memory.buffer);
    cache.add(makeEntry(id, memory, memory.subarray(0, bytes)), null, '/', null);
    expect(cache.bytes).toBeLessThanOrEqual(4 << 20);
    for (let kept = id; kept > 0; kept--) {
      const body = cache.get(kept)?.request.raw;
      if (body === undefined) continue;
      expect([kept, body[0], body[body.length - 1]]).toEqual([kept, kept % 256, kept % 256]);
    }
  }
  expect(buffers.size).toBeLessThan(400);
  expect(cache.takeMemory((1 << 20) + 1)).toBeNull();
});

it('a quiet thread drops the free memory, and no base', () => {
  const cache = new BaseCache(4 << 20);
  for (let id = 1; id <= 100; id++) {
    const memory = cache.takeMemory(100_000)!.fill(id);
    cache.add(makeEntry(id, memory, memory.subarray(0, 100_000)), null, '/', null);
  }
  const kept = Array.from({ length: 100 }, (_, at) => at + 1).filter((id) => cache.get(id) !== undefined);
  const before = cache.bytes;
  cache.releaseSpare();
  expect(cache.bytes).toBeLessThan(before);
  expect(kept.length).toBeGreaterThan(20);
  for (const id of kept) expect(cache.get(id)?.request.raw[99_999]).toBe(id);
  expect(cache.takeMemory(100_000)!.length).toBeGreaterThanOrEqual(100_000);
});

it('the cache keeps no more memory than it counts, for bodies with keys and images and without', async () => {
  const add = vi.spyOn(BaseCache.prototype, 'add');
  onTestFinished(() => add.mockRestore());
  const log = await CaptureLog.open({ path: join(makeFolder(), 'capture.mdb'), redact: true });
  onTestFinished(() => log.close());
  const prng = createPrng(7);
  const word = () => prng.below(2 ** 32).toString(36);
  const words = (count: number) => Array.from({ length: count }, word).join(' ');
  const key = () => `sk-ant-api03-${Array.from({ length: 9 }, word).join('')}AA`;
  const image = () => Buffer.from(Array.from({ length: 1_100 }, () => prng.below(256))).toString('base64');
  for (let i = 0; i < 120; i++) {
    const text = words(60 + prng.below(200));
    const more = [text, `${text} ${key()}`, `"}, {"data":"${image()}"}, {"text":"${text}`][i % 3];
    const body = Buffer.from(`{"text":"${word()} ${more}"}`);
    await log.append([makeExchange({ request_body: body, response_body: body.subarray(0, 900) })]);
  }

  const cache = add.mock.contexts[0] as BaseCache;
  const held = new Set<ArrayBufferLike>();
  let kept = 0;
  for (const [{ id }] of add.mock.calls) {
    const entry = cache.get(id);
    if (entry === undefined) continue;
    kept++;
    held.add(entry.memory.buffer);
    held.add(entry.record!.buffer);
    for (const body of [entry.request, entry.response!]) {
      held.add(body.raw.buffer);
      held.add(body.stored.buffer);
      for (const { text } of body.edits) held.add(text.buffer);
    }
  }
  expect(kept).toBeGreaterThan(100);
  let bytes = 0;
  for (const { byteLength } of held) bytes += byteLength;
  // The text of the mask is in Node's shared buffer pool, which the cache does not count.
  expect(bytes).toBeLessThanOrEqual(cache.bytes + Buffer.poolSize);
});

it('conversations grow in place, even if they branch or go back', {
  tags: 'long',
}, async () => {
  const takeOver = vi.spyOn(BaseCache.prototype, 'takeOver');
  onTestFinished(() => takeOver.mockRestore());
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1 });
  onTestFinished(() => log.close());
  const prng = createPrng(11);
  const words = (bytes: number) => {
    let text = '';
    while (text.length < bytes) text += `${prng.below(2 ** 32).toString(36)} `;
    return text;
  };
  const key = `sk-ant-api03-${words(80).replaceAll(' ', '')}AA`;
  const runs = Array.from({ length: 6 }, (_, run) => ({ run_id: `run-${run}`, turns: [words(30_000)] }));
  const stored: string[] = [];
  let turn = 0;
  for (let batch = 0; batch < 12; batch++) {
    await log.append(
      Array.from({ length: 40 }, () => {
        const { run_id, turns } = runs[turn++ % runs.length]!;
        const next = prng.below(20);
        if (next === 0 && turns.length > 2) turns.length -= 2;
        else if (next === 1) turns[0] = words(30_000);
        else turns.push(next === 2 ? `${words(900)} ${key} ` : words(100 + prng.below(3_000)));
        const text = turns.join('');
        stored.push(text.replaceAll(key, MASK));
        const branch = prng.below(10) === 0 ? 'run-of-its-own' : run_id;
        return makeExchange({
          run_id: branch,
          request_body: Buffer.from(text),
          response_body: Buffer.from(words(300)),
        });
      }),
    );
  }
  const taken = takeOver.mock.results.filter(({ value }) => value !== null).length;
  expect(taken).toBeGreaterThan(100);
  const reader = CaptureReader.open(path);
  onTestFinished(() => reader.close());
  for (const [at, text] of stored.entries())
    expect(reader.body(at + 1, 'request')!.toString() === text).toBe(true);
});
