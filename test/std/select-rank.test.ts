/** The value of a rank, compared with sorting. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { selectRank } from '../../src/std/select-rank.ts';

it('finds the same value as sorting, also among equal and sorted values', () => {
  const number = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.double({ min: 0, noNaN: true }));
  const numbers = fc.array(number, { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(
      numbers,
      fc.nat(),
      fc.constantFrom('as they are', 'ascending', 'descending'),
      (some, at, order) => {
        if (order !== 'as they are') some.sort((a, b) => (order === 'ascending' ? a - b : b - a));
        const rank = at % some.length;
        expect(selectRank(Float64Array.from(some), rank)).toBe(Float64Array.from(some).sort()[rank]);
      },
    ),
  );
});

it('keeps all values, so that further ranks can be found', () => {
  const values = Float64Array.from({ length: 1_001 }, (_, at) => (at * 7_919) % 1_001);
  expect([500, 950, 0, 1_000].map((rank) => selectRank(values, rank))).toEqual([500, 950, 0, 1_000]);
});
