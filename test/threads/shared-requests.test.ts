/** How a box that shares its database answers requests, by the age of its rows. Test thread; without a store thread. */
import { expect, it } from 'vitest';
import { SeatState } from '../../src/storage/shared/seat.ts';
import { SharedRequests } from '../../src/threads/shared-requests.ts';

function open(ageMs: number, position = 7): SharedRequests {
  const state = SeatState.allocate();
  const seat = new SeatState(state);
  seat.position = position;
  seat.noteStale(ageMs);
  return new SharedRequests({ identity: 'i', state });
}

const request = (headers: Record<string, string>, query = '') => ({
  headers: new Map(Object.entries(headers)),
  query,
});
const KEY = { authorization: 'Bearer k' };

it('rows of the last second are not reported as old', async () => {
  const shared = open(0);
  expect(shared.refusal).toBeNull();
  expect(shared.describe()).toEqual([['x-svc-position', '7']]);
  expect(shared.admit(request(KEY))).toBeNull();
  await shared.close();
});

it('older rows are shown with their age, and after a minute no credential is accepted', async () => {
  const shared = open(30_000);
  expect(shared.describe()).toEqual([
    ['x-svc-position', '7'],
    ['x-svc-stale', '30'],
  ]);
  expect(shared.admit(request(KEY))).toBeNull();
  const old = open(61_000);
  expect(old.refusal).toContain('61 seconds');
  for (const asked of [request(KEY), request({ cookie: 'session=1' }), request({}, 'a=b&ticket=t')])
    expect(() => old.admit(asked)).toThrow(expect.objectContaining({ code: 'unavailable' }));
  expect(old.admit(request({}))).toBeNull();
  await Promise.all([shared.close(), old.close()]);
});

it('at most 1,000 requests with a credential wait for a position that the box does not show yet', async () => {
  const shared = open(0);
  for (const position of ['7', '0', '-1', 'x', '', '9'.repeat(16)])
    expect(shared.admit(request({ ...KEY, 'x-svc-position': position }))).toBeNull();
  expect(shared.admit(request({ 'x-svc-position': '8' }))).toBeNull();
  expect(await shared.admit(request({ ...KEY, 'x-svc-position': '8' }))).toBe(false);
  const waits = Array.from({ length: 1_001 }, () => shared.admit(request({ ...KEY, 'x-svc-position': '8' })));
  expect(waits.filter((wait) => wait === null)).toHaveLength(1);
  await Promise.all(waits);
  await shared.close();
});
