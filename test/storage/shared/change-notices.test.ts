/** When indexes in memory count as up to date with the changes of other boxes. Test thread. */
import { describe, expect, it } from 'vitest';
import { ChangeNotices } from '../../../src/storage/shared/change-notices.ts';
import { SeatState } from '../../../src/storage/shared/seat.ts';

function open() {
  const seat = new SeatState(SeatState.allocate());
  seat.position = 7;
  return { seat, notices: new ChangeNotices<string>(seat) };
}

it('a position is reached when every follower has applied the notices before it', async () => {
  const { seat, notices } = open();
  notices.add('a');
  notices.add('b');
  expect(seat.hasReached(7)).toBe(true);
  expect(seat.hasReached(8)).toBe(false);
  const [first, second] = [notices.next(), notices.next()];
  expect(seat.hasReached(7)).toBe(false);
  const applied = notices.whenApplied(60_000);
  notices.note('a', second);
  notices.note('b', first);
  expect(seat.hasReached(7)).toBe(false);
  notices.note('b', second);
  expect(await applied).toBe(true);
  expect(seat.hasReached(7)).toBe(true);
});

it('a caller waits only for earlier changes, and at most for the given time', async () => {
  const { notices } = open();
  notices.add('a');
  const first = notices.next();
  const applied = notices.whenApplied(60_000);
  notices.next();
  notices.note('a', first);
  expect(await applied).toBe(true);
  expect(await notices.whenApplied(0)).toBe(false);
});

it('a caller does not wait for a follower that has ended, and a new follower knows the existing rows', async () => {
  const { seat, notices } = open();
  notices.add('a');
  notices.next();
  const applied = notices.whenApplied(60_000);
  notices.add('b');
  notices.remove('a');
  expect(await applied).toBe(true);
  notices.note('a', 0);
  expect(seat.hasReached(7)).toBe(true);
});

it('a caller does not wait if there are no followers', () => {
  const { seat, notices } = open();
  notices.next();
  expect(seat.hasReached(7)).toBe(true);
});

describe('after a restart of the store thread', () => {
  it('indexes count as stale until the former followers know all rows', () => {
    const { seat, notices } = open();
    notices.add('a');
    notices.add('b');
    const again = new ChangeNotices<string>(seat);
    expect(seat.hasReached(7)).toBe(false);
    again.add('new a', true);
    again.note('new a', seat.changes);
    expect(seat.hasReached(7)).toBe(false);
    again.add('new b', true);
    expect(seat.hasReached(7)).toBe(false);
    again.note('new b', seat.changes);
    expect(seat.hasReached(7)).toBe(true);
    again.remove('new b');
    expect(seat.followers).toBe(1);
  });

  it('the wait for a follower that does not come back ends', async () => {
    const { seat, notices } = open();
    notices.add('a');
    notices.add('b');
    const again = new ChangeNotices<string>(seat, 0);
    again.add('new a', true);
    again.note('new a', seat.changes);
    expect(seat.hasReached(7)).toBe(false);
    expect(await again.whenApplied(60_000)).toBe(true);
  });
});
