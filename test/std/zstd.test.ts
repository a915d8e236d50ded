/** Zstandard in one call: what `node:zlib` makes and reads, and memory that does not wait for the collector. */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { compressZstd, decompressZstd } from '../../src/std/zstd.ts';

const bytes = fc.uint8Array({ maxLength: 40_000, size: 'max' }).map((array) => Buffer.from(array));

it('makes and reads what node:zlib does', () => {
  fc.assert(
    fc.property(bytes, fc.option(bytes), fc.integer({ min: 1, max: 6 }), (text, dictionary, level) => {
      const options = {
        params: { [constants.ZSTD_c_compressionLevel]: level },
        ...(dictionary === null ? {} : { dictionary: Buffer.concat([Buffer.from('\n'), dictionary]) }),
      };
      const packed = compressZstd(text, options);
      expect(packed.equals(zstdCompressSync(text, options))).toBe(true);
      const { params: _, ...read } = options;
      expect(decompressZstd(packed, read).equals(text)).toBe(true);
      expect(zstdDecompressSync(packed, read).equals(text)).toBe(true);
    }),
    { numRuns: 50 },
  );
});

it('gives what there is of a stream that was cut, when it is asked to', () => {
  const prng = createPrng(5);
  const text = Buffer.from(Array.from({ length: 90_000 }, () => prng.below(1_000).toString(36)).join(' '));
  const cut = zstdCompressSync(text).subarray(0, -1_000);
  const options = { finishFlush: constants.ZSTD_e_flush };
  const read = decompressZstd(cut, options);
  expect(read.length).toBeGreaterThan(0);
  expect(read.equals(zstdDecompressSync(cut, options))).toBe(true);
});

it('throws what node:zlib does', () => {
  const packed = zstdCompressSync(Buffer.alloc(10_000, 'abc'));
  expect(() => decompressZstd(Buffer.from('no zstd at all'))).toThrow('Unknown frame descriptor');
  const options = { maxOutputLength: 100 };
  expect(() => decompressZstd(packed, options)).toThrow(
    expect.objectContaining({ code: 'ERR_BUFFER_TOO_LARGE' }),
  );
});

it('gives its memory back at once', () => {
  const prng = createPrng(3);
  const words = (count: number) =>
    Array.from({ length: count }, () => prng.below(5_000).toString(36)).join(' ');
  const dictionary = Buffer.from(`\n${words(25_000)}`);
  const text = Buffer.from(words(5_000));
  const options = { params: { [constants.ZSTD_c_compressionLevel]: 6 }, dictionary };
  const work = (): void => {
    for (let i = 0; i < 200; i++) decompressZstd(compressZstd(text, options), { dictionary });
  };
  work();
  const before = process.memoryUsage().rss;
  work();
  expect(process.memoryUsage().rss - before).toBeLessThan(60 << 20);
});
