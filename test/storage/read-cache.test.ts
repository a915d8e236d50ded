/** The cache that readers of several files share. */
import { expect, it } from 'vitest';
import { CachedFile, ReadCache } from '../../src/storage/capture/read-cache.ts';

const KIB = 1024;
const PLACE = { self: {}, repeats: null, repeated_bytes: 0 };

const makeBlock = (first_id: number, records = 1) => ({
  first_id,
  records: Array.from({ length: records }, (_, n) => Buffer.from(`${first_id} ${n}`)),
});
const makeBodies = (bytes: number) => ({
  request: Buffer.alloc(bytes),
  response: Buffer.alloc(0),
  request_place: PLACE,
});

it('blocks and bodies of all files share one bound, and the least recently used is dropped first', () => {
  const cache = new ReadCache(100 * KIB);
  const [first, second] = [new CachedFile(cache), new CachedFile(cache)];
  first.keepBlock(makeBlock(1), 40 * KIB);
  second.keepBlock(makeBlock(1), 30 * KIB);
  first.keepBodies(1, makeBodies(20 * KIB));
  // Blocks and bodies of each file have separate entries, even if they have the same number.
  expect(first.block(1)).not.toBe(second.block(1));
  expect(first.bodies(1)?.request).toHaveLength(20 * KIB);
  expect(second.bodies(1)).toBeUndefined();
  expect(first.block(1)).toBeDefined();
  second.keepBodies(7, makeBodies(20 * KIB));
  expect(second.block(1)).toBeUndefined();
  expect([first.block(1), first.bodies(1), second.bodies(7)].every((kept) => kept !== undefined)).toBe(true);
});

it('an entry that is stored again counts once', () => {
  const cache = new ReadCache(100 * KIB);
  const file = new CachedFile(cache);
  file.keepBodies(2, makeBodies(30 * KIB));
  for (let i = 0; i < 9; i++) file.keepBodies(1, makeBodies(40 * KIB));
  expect(file.bodies(2)).toBeDefined();
});

it('only the last of the blocks that are too large is kept, and bodies that are too large never are', () => {
  const cache = new ReadCache(100 * KIB);
  const [first, second] = [new CachedFile(cache), new CachedFile(cache)];
  first.keepBlock(makeBlock(1), 90 * KIB);
  expect(first.block(1)?.first_id).toBe(1);
  expect(second.block(1)).toBeUndefined();
  second.keepBlock(makeBlock(5), 90 * KIB);
  expect([first.block(1), second.block(5)?.first_id]).toEqual([undefined, 5]);
  first.keepBodies(1, makeBodies(90 * KIB));
  expect(first.bodies(1)).toBeUndefined();
});

it('a file drops only its own entries, and a quiet thread drops all entries', () => {
  const cache = new ReadCache(100 * KIB);
  const [first, second] = [new CachedFile(cache), new CachedFile(cache)];
  for (const file of [first, second]) {
    file.keepBlock(makeBlock(1, 3), KIB);
    file.keepBodies(2 ** 32 - 1, makeBodies(10));
    file.keepBlock(makeBlock(9), 90 * KIB);
  }
  second.clear();
  expect([second.block(1), second.bodies(2 ** 32 - 1), second.block(9)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(first.block(1)?.records).toHaveLength(3);
  expect(first.bodies(2 ** 32 - 1)).toBeDefined();
  cache.releaseSpare();
  expect([first.block(1), first.bodies(2 ** 32 - 1)]).toEqual([undefined, undefined]);
  // Now the whole bound is available again.
  for (const id of [1, 2]) first.keepBlock(makeBlock(id), 48 * KIB);
  expect([1, 2].map((id) => first.block(id)?.first_id)).toEqual([1, 2]);
});
