/** Zstandard in one call: compatible with `node:zlib`, and memory that is freed without the garbage collector. */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import {
  beginsLikeZstd,
  compressZstd,
  decompressFrames,
  decompressZstd,
  measureZstd,
} from '../../src/std/zstd.ts';
import { drawsOf } from '../long-parts.ts';

const bytes = fc.uint8Array({ maxLength: 40_000, size: 'max' }).map((array) => Buffer.from(array));

it('the addon compresses and reads like node:zlib', () => {
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

it('the beginning of a stream that was cut is returned on request', () => {
  const prng = createPrng(5);
  const text = Buffer.from(Array.from({ length: 90_000 }, () => prng.below(1_000).toString(36)).join(' '));
  const cut = zstdCompressSync(text).subarray(0, -1_000);
  const options = { finishFlush: constants.ZSTD_e_flush };
  const read = decompressZstd(cut, options);
  expect(read.length).toBeGreaterThan(0);
  expect(read.equals(zstdDecompressSync(cut, options))).toBe(true);
});

it('errors are those of node:zlib', () => {
  const packed = zstdCompressSync(Buffer.alloc(10_000, 'abc'));
  expect(() => decompressZstd(Buffer.from('no zstd at all'))).toThrow('Unknown frame descriptor');
  const options = { maxOutputLength: 100 };
  expect(() => decompressZstd(packed, options)).toThrow(
    expect.objectContaining({ code: 'ERR_BUFFER_TOO_LARGE' }),
  );
});

it('memory is returned at once', () => {
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

const skippable = (size: number): Buffer => {
  const frame = Buffer.alloc(8 + size, 0xee);
  frame.writeUInt32LE(0x184d2a50 + (size % 16), 0);
  frame.writeUInt32LE(size, 4);
  return frame;
};

const frame = fc.oneof(
  fc.tuple(fc.uint8Array({ maxLength: 3_000 }), fc.boolean()).map(([text, hasChecksum]) => {
    const params = { [constants.ZSTD_c_checksumFlag]: hasChecksum ? 1 : 0 };
    return { text: Buffer.from(text), packed: zstdCompressSync(text, { params }) };
  }),
  fc.nat(40).map((size) => ({ text: Buffer.alloc(0), packed: skippable(size) })),
);

it('all frames are decoded; for bytes that are cut off, the end of the last whole frame is returned', () => {
  fc.assert(
    fc.property(fc.array(frame, { minLength: 1, maxLength: 8 }), fc.nat(), (frames, cut) => {
      const packed = Buffer.concat(frames.map((frame) => frame.packed));
      const text = Buffer.concat(frames.map((frame) => frame.text));
      expect(beginsLikeZstd(packed)).toBe(true);
      expect(measureZstd(packed).end).toBe(packed.length);
      const whole = decompressFrames(packed, { maxOutputLength: 100_000 }, 100);
      expect(whole.end).toBe(packed.length);
      expect(whole.bytes.equals(text)).toBe(true);
      const part = decompressFrames(
        packed.subarray(0, cut % packed.length),
        { maxOutputLength: 100_000 },
        100,
      );
      let [end, size] = [0, 0];
      for (const frame of frames) {
        if (end + frame.packed.length > cut % packed.length) break;
        end += frame.packed.length;
        size += frame.text.length;
      }
      expect(part.end).toBe(end);
      expect(part.bytes.equals(text.subarray(0, size))).toBe(true);
    }),
    drawsOf(200),
  );
});

it('decoding stops at damage, at the maximum of frames, and at the maximum of output', () => {
  const packed = zstdCompressSync(Buffer.alloc(1_000, 'abc'), {
    params: { [constants.ZSTD_c_checksumFlag]: 1 },
  });
  const damaged = Buffer.from(packed);
  damaged[damaged.length - 1]! ^= 1;
  const three = Buffer.concat([packed, damaged, packed]);
  expect(decompressFrames(three, { maxOutputLength: 10_000 }, 9)).toMatchObject({ end: packed.length });
  const good = Buffer.concat([packed, packed, packed]);
  expect(decompressFrames(good, { maxOutputLength: 10_000 }, 2).end).toBe(2 * packed.length);
  expect(() => decompressFrames(good, { maxOutputLength: 2_500 }, 9)).toThrow('the output exceeds its limit');
  expect(decompressFrames(Buffer.from('no zstd at all'), { maxOutputLength: 99 }, 9).end).toBe(0);
});
