/** When the soak bench reports its target as met: figures stay level, and no request fails. */
import { expect, it } from 'vitest';
import { describeSoak, judgeSoak, type SoakLook } from '../../bench/soak.ts';

function makeLooks(over: (half: 0 | 1) => Partial<SoakLook>): SoakLook[] {
  return Array.from({ length: 20 }, (_, at) => ({
    at_s: at * 8,
    refused: 0,
    list_ms: 100 + at,
    queued: 50,
    dropped: 0,
    unindexed: 300,
    anon_bytes: 500e6 + at * 1e6,
    ...over(at < 10 ? 0 : 1),
  }));
}

it('the soak is met if the figures of the second half are like those of the first', () => {
  const report = judgeSoak(
    makeLooks(() => ({})),
    0,
  );
  expect(report.faults).toEqual([]);
  expect(report.halves[0].list_p99_ms).toBe(109);
  expect(describeSoak(report, 20).at(-1)).toBe('nothing refused, all flat: met');
});

it.each([
  [{ list_ms: 400 }, 'p99 of the slowest list, in ms, grows from 109 to 400'],
  [{ queued: 9_000 }, 'the number of queued exchanges grows from 50 to 9000'],
  [{ unindexed: 9_000 }, 'the number of exchanges that are not indexed grows from 300 to 9000'],
  [{ dropped: 7 }, '7 exchanges were dropped'],
  [{ anon_bytes: 900e6 }, 'memory, in MB, grows from 505 to 900'],
  [{ refused: 1 }, 'lists were refused in 10 checks'],
])('the soak is not met with %j in the second half', (later, fault) => {
  const looks = makeLooks((half) => (half === 0 ? {} : later));
  expect(judgeSoak(looks, 0).faults).toEqual([fault]);
});

it('a load with failed requests is a fault', () => {
  expect(
    judgeSoak(
      makeLooks(() => ({})),
      3,
    ).faults,
  ).toEqual(['3 requests failed']);
});
