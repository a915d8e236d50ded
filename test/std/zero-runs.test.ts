/** Packed runs of zeros. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packZeroRuns, unpackZeroRuns } from '../../src/std/zero-runs.ts';

describe('runs of zeros', () => {
  it('restore any bytes', () => {
    const byte = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(255) });
    fc.assert(
      fc.property(fc.array(byte, { maxLength: 1_200 }), (numbers) => {
        const bytes = Uint8Array.from(numbers);
        expect(unpackZeroRuns(packZeroRuns(bytes), bytes.length)).toEqual(bytes);
      }),
      { seed: 5, numRuns: 300 },
    );
    for (const bytes of [new Uint8Array(600), new Uint8Array(600).fill(7), new Uint8Array(0)])
      expect(unpackZeroRuns(packZeroRuns(bytes), bytes.length)).toEqual(bytes);
  });

  it('take 6 bytes for 650 zeros, and add 6 to 650 bytes without a zero', () => {
    expect(packZeroRuns(new Uint8Array(650)).length).toBe(6);
    expect(packZeroRuns(new Uint8Array(650).fill(1)).length).toBe(656);
  });

  it('are refused when they are damaged', () => {
    const packed = packZeroRuns(Uint8Array.of(0, 0, 0, 0, 5, 6));
    expect(packed).toEqual(Uint8Array.of(4, 2, 5, 6));
    for (const [bytes, length] of [
      [packed, 5],
      [packed, 7],
      [packed.subarray(0, 3), 6],
      [Uint8Array.of(...packed, 1), 6],
    ] as const)
      expect(() => unpackZeroRuns(bytes, length)).toThrow(RangeError);
  });
});
