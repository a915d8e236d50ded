/** Vectors of situations in the form in which rows store them. */
import { describe, expect, it } from 'vitest';
import { decodeVector, encodeVector, isUnpackedVector, roundVector } from '../../src/domain/pattern-rows.ts';
import { createPrng } from '../../src/std/prng.ts';

function makeVector(seed: number, dimensions: number): Float32Array {
  const prng = createPrng(seed);
  // Some blocks of numbers are far smaller than others.
  const sizes = Array.from({ length: Math.ceil(dimensions / 32) }, () => 4 ** -prng.below(6));
  const numbers = Float32Array.from({ length: dimensions }, (_, at) => {
    return (prng.float() + prng.float() - 1) * sizes[Math.floor(at / 32)]!;
  });
  const length = Math.hypot(...numbers);
  return numbers.map((number) => number / length);
}

function multiply(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, number, at) => sum + number * b[at]!, 0);
}

describe('a stored vector', () => {
  it('has products within 6e-4 of the original’s, takes less than a third of a page, and does not change when stored again', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const vector = makeVector(seed, 1_024);
      const other = makeVector(seed + 1_000, 1_024);
      const bytes = encodeVector(vector);
      expect(bytes.length).toBeLessThan(1_200);
      expect(isUnpackedVector(bytes)).toBe(false);
      const read = decodeVector(bytes, 1_024)!;
      expect(Math.abs(multiply(read, vector) - 1)).toBeLessThan(1e-6);
      expect(Math.abs(multiply(read, other) - multiply(vector, other))).toBeLessThan(6e-4);
      expect(roundVector(read)).toEqual(read);
      expect(roundVector(vector)).toEqual(read);
    }
  });

  it('has any number of dimensions, and numbers of either sign', () => {
    for (let dimensions = 1; dimensions <= 70; dimensions++) {
      const bytes = encodeVector(makeVector(dimensions, dimensions));
      expect(isUnpackedVector(bytes)).toBe(false);
      expect(decodeVector(bytes, dimensions)).toHaveLength(dimensions);
      expect(decodeVector(bytes, dimensions + 8)).toBeUndefined();
    }
    for (const vector of [Float32Array.of(1, 0), Float32Array.of(0, -1, 0), new Float32Array(5)])
      expect(roundVector(vector)).toEqual(vector);
  });

  it('of a former version can be read, and is recognized by its length', () => {
    const vector = makeVector(3, 100);
    const bytes = Buffer.alloc(400);
    for (const [at, number] of vector.entries()) bytes.writeFloatLE(number, at * 4);
    expect(isUnpackedVector(bytes)).toBe(true);
    expect(decodeVector(bytes, 100)).toEqual(roundVector(vector));
    expect(decodeVector(bytes, 101)).toBeUndefined();
    expect(decodeVector('text', 100)).toBeUndefined();
  });
});
