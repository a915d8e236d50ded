/** Stored vectors: the numbers that are read are close to the numbers that were stored. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { roundVector } from '../../src/domain/pattern-rows.ts';
import { packedForm } from '../../src/search/packed-vector.ts';
import { shortForm } from '../../src/search/short-vector.ts';

function keepShort(vector: Float32Array): Float32Array {
  const stored = shortForm.make(shortForm.count(vector.length)).fill(9);
  shortForm.write(vector, stored);
  return shortForm.read(stored, new Float32Array(vector.length));
}

function keepPacked(vector: Float32Array): Float32Array {
  const stored = packedForm.make(packedForm.count(vector.length)).fill(9);
  packedForm.write(vector, stored);
  return packedForm.read(stored, new Float32Array(vector.length));
}

function multiply(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, number, at) => sum + number * b[at]!, 0);
}

it('a short vector keeps each number to a 30,000th of the greatest, and its product with the original', () => {
  const numbers = fc.float32Array({
    minLength: 1,
    maxLength: 40,
    noNaN: true,
    min: -(2 ** 100),
    max: 2 ** 100,
  });
  fc.assert(
    fc.property(numbers, (vector) => {
      const greatest = vector.reduce((most, number) => Math.max(most, Math.abs(number)), 0);
      const kept = keepShort(vector);
      for (const [at, number] of vector.entries())
        expect(Math.abs(kept[at]! - number)).toBeLessThanOrEqual(Math.max(greatest / 30_000, 2 ** -126));
      if (greatest > 2 ** -60) expect(multiply(kept, vector) / multiply(vector, vector)).toBeCloseTo(1, 6);
    }),
  );
  for (const exact of [
    [0, 0],
    [1, 0],
    [-0.25, 0.5, 1],
  ])
    expect(keepShort(Float32Array.from(exact))).toEqual(Float32Array.from(exact));
});

it('packed vectors equal the stored rows', () => {
  const numbers = fc.float32Array({
    minLength: 1,
    maxLength: 70,
    noNaN: true,
    min: -(2 ** 100),
    max: 2 ** 100,
  });
  fc.assert(
    fc.property(numbers, (vector) => {
      expect(keepPacked(vector)).toEqual(roundVector(vector));
    }),
  );
  for (const length of [1_024, 1_536]) {
    const vector = Float32Array.from({ length }, (_, at) => Math.sin(at * at));
    expect(keepPacked(vector)).toEqual(roundVector(vector));
  }
});
