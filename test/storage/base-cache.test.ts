/** Memory of bodies that later ones are stored against: used again, but never while it is somebody's. */
import { expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { BaseCache, type BaseEntry } from '../../src/storage/capture/base-cache.ts';
import { NO_FILES } from '../../src/storage/capture/preparation.ts';

const SECRETS = { texts: [], bytes: [], packed: Buffer.alloc(0), packed_all: Buffer.alloc(0) };

function makeEntry(id: number, raw: Buffer): BaseEntry {
  const request = { raw, stored: raw, edits: [], keeps_files: false, has_files: false, new_files: NO_FILES };
  return {
    id,
    depth: 0,
    root: id,
    request,
    response: null,
    record: Buffer.alloc(0),
    secrets: SECRETS,
    bytes: raw.length,
  };
}

it('uses the memory of dropped bodies again, and of no others', () => {
  const cache = new BaseCache(4 << 20);
  const prng = createPrng(5);
  const buffers = new Set<ArrayBufferLike>();
  for (let id = 1; id <= 400; id++) {
    const raw = cache.takeMemory(
      prng.below(2) === 0 ? 300_000 + prng.below(5_000) : 60_000 + prng.below(60_000),
    );
    raw.fill(id % 256);
    buffers.add(raw.buffer);
    cache.add(makeEntry(id, raw), null, '/', null);
    for (let kept = id; kept > 0; kept--) {
      const body = cache.get(kept)?.request.raw;
      if (body === undefined) continue;
      expect([kept, body[0], body[body.length - 1]]).toEqual([kept, kept % 256, kept % 256]);
    }
  }
  expect(buffers.size).toBeLessThan(300);
});
