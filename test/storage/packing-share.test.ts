/** The share of a core that is used for waiting work. */
import { expect, it } from 'vitest';
import {
  choosePackingShare,
  chooseTidyShare,
  comesPackingFirst,
  LEAST_SHARE,
  measurePackingNeed,
  type TidyBacklog,
} from '../../src/storage/capture/packing-share.ts';

const NOTHING: TidyBacklog = {
  waiting_blocks: 0,
  waiting_bytes: 0,
  oldest_s: 0,
  unindexed: 0,
  unindexed_s: 0,
  unsearched: 0,
};
const GIB = 1 << 30;

it('the share is LEAST_SHARE if nothing waits, whatever the size of the database', () => {
  expect(chooseTidyShare(NOTHING, 0)).toBe(LEAST_SHARE);
  expect(chooseTidyShare(NOTHING, 100 * GIB)).toBe(LEAST_SHARE);
});

it.each([
  ['the bytes that wait', (part: number) => ({ waiting_bytes: part * 2 * GIB }), 0, 0.5],
  [
    'the bytes that wait, in relation to a large database',
    (part: number) => ({ waiting_bytes: part * 8 * GIB }),
    8 * GIB,
    0.5,
  ],
  ['the time that they have waited', (part: number) => ({ oldest_s: part * 600 }), GIB, 0.5],
  [
    'the time that the index has been incomplete',
    (part: number) => ({ unindexed: 1, unindexed_s: part * 8 }),
    GIB,
    0.8,
  ],
  [
    'the exchanges that the full-text index lacks',
    (part: number) => ({ unsearched: part * 30_000 }),
    GIB,
    0.5,
  ],
])('the share grows with %s, up to a bound and little by little', (_of, wait, packed, most) => {
  let before = LEAST_SHARE;
  for (let part = 0.01; part <= 1; part += 0.01) {
    const share = chooseTidyShare({ ...NOTHING, ...wait(part) }, packed);
    expect(share).toBeGreaterThan(before);
    expect(share - before).toBeLessThan(0.01);
    before = share;
  }
  for (const part of [1, 2, 1_000])
    expect(chooseTidyShare({ ...NOTHING, ...wait(part) }, packed)).toBeCloseTo(most);
});

it('packing alone gets its own share, whatever else waits', () => {
  const rest = { unindexed: 1_000_000, unindexed_s: 600, unsearched: 1_000_000 };
  expect(choosePackingShare({ ...NOTHING, ...rest }, 0)).toBe(LEAST_SHARE);
  expect(choosePackingShare({ ...NOTHING, ...rest, waiting_bytes: 2 * GIB }, 0)).toBeCloseTo(0.5);
});

it('the need is 1 when as much waits as the database holds', () => {
  expect(measurePackingNeed({ ...NOTHING, waiting_bytes: 3 * GIB }, 3 * GIB)).toBe(1);
  expect(measurePackingNeed({ ...NOTHING, waiting_bytes: 3 * GIB }, 12 * GIB)).toBe(0.25);
});

it.each([
  ['half of the passes if neither need is urgent', 0.1, 0.2, 2],
  ['three of four passes if packing is more urgent', 0.5, 0.4, 3],
  ['three of four passes if only packing is urgent', 0.5, 0, 3],
  ['one of four passes if the index is more urgent', 0.4, 0.5, 1],
  ['no pass if only the index is urgent', 0.2, 0.5, 0],
])('packing comes first in %s', (_when, packing, index, expected) => {
  const firsts = [0, 1, 2, 3].filter((pass) => comesPackingFirst(pass, packing, index));
  expect(firsts.length).toBe(expected);
});
