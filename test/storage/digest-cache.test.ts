/**
 * A round's cache of runs. It returns data only for an unchanged run and for the requested data, and never damaged
 * data.
 */
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DigestCache } from '../../src/storage/digest-cache.ts';
import { makeFolder } from './folder.ts';

const key = (run: string, mark = 'as it was') => ({ key: run, mark });
const digest = (text: string) => ({
  codes: [],
  steps: [{ text, marks: [1, 2 ** 31, -0.5] }],
  bytes: text.length,
});

describe('the cache of digests', () => {
  it('returns stored data if the run and the code have not changed since', async () => {
    const path = join(makeFolder(), 'deep', 'digests.mdb');
    const long = 'r'.repeat(5_000);
    const first = DigestCache.open(path, 'code 1');
    await first.put(key('a'), digest('ä'));
    await first.put(key(long), digest('long'));
    await first.close();

    const again = DigestCache.open(path, 'code 1');
    expect(again.get(key('a'))).toEqual(digest('ä'));
    expect(again.get(key(long))).toEqual(digest('long'));
    expect(again.get(key('a', 'gone on'))).toBeUndefined();
    expect(again.get(key('b'))).toBeUndefined();
    await again.close();

    const newer = DigestCache.open(path, 'code 2');
    expect(newer.get(key('a'))).toBeUndefined();
    await newer.put(key('a'), digest('new'));
    await newer.close();
    const last = DigestCache.open(path, 'code 2');
    expect(last.get(key('a'))).toEqual(digest('new'));
    await last.close();
  });

  it('keeps what was requested, drops the rest, and counts its bytes', async () => {
    const path = join(makeFolder(), 'digests.mdb');
    const cache = DigestCache.open(path, 'code');
    for (const run of ['a', 'b', 'c']) await cache.put(key(run), digest(run));
    await cache.put(key('a'), digest('a'));
    await cache.close();
    const next = DigestCache.open(path, 'code');
    const before = next.bytes;
    expect(before).toBeGreaterThan(0);
    next.get(key('b'));
    await next.prune();
    expect(next.bytes).toBeCloseTo(before / 3, 5);
    expect(next.get(key('b'))).toEqual(digest('b'));
    expect(next.get(key('a'))).toBeUndefined();
    await next.close();
  });

  it('is made again if its file is cut off or is not a cache', async () => {
    const path = join(makeFolder(), 'digests.mdb');
    const cache = DigestCache.open(path, 'code');
    await cache.put(key('a'), digest('a'));
    await cache.close();
    const whole = readFileSync(path);
    for (const spoil of [() => truncateSync(path, 5_000), () => writeFileSync(path, 'text '.repeat(4_000))]) {
      writeFileSync(path, whole);
      spoil();
      const opened = DigestCache.open(path, 'code');
      expect(opened.get(key('a'))).toBeUndefined();
      await opened.put(key('b'), digest('b'));
      await opened.flush();
      expect(opened.get(key('b'))).toEqual(digest('b'));
      await opened.close();
    }
  });
});
