/** How long other work pauses so that appends have time (src/storage/capture/append-load.ts). */
import { expect, it, onTestFinished, vi } from 'vitest';
import { AppendLoad } from '../../src/storage/capture/append-load.ts';

function watchPauses(): { load: AppendLoad; pauses: number[] } {
  const pauses: number[] = [];
  const load = new AppendLoad(async (ms) => {
    pauses.push(ms);
  });
  return { load, pauses };
}

it('other work does not pause without appends', async () => {
  const { load, pauses } = watchPauses();
  await load.rest(20);
  load.begin();
  await load.rest(20);
  pauses.length = 0;
  await load.rest(20);
  expect(pauses).toEqual([]);
});

it('other work leaves half of the time to appends, and nine tenths if the log is behind', async () => {
  const { load, pauses } = watchPauses();
  load.begin();
  await load.rest(20);
  load.is_behind = true;
  load.begin();
  await load.rest(20);
  load.is_behind = false;
  load.begin();
  await load.rest(20);
  expect(pauses).toEqual([20, 180, 20]);
});

it('the log counts as behind for a second, unless an append says otherwise', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { load } = watchPauses();
  expect(load.is_behind).toBe(false);
  load.is_behind = true;
  vi.advanceTimersByTime(999);
  expect(load.is_behind).toBe(true);
  vi.advanceTimersByTime(1);
  expect(load.is_behind).toBe(false);
  load.is_behind = true;
  load.is_behind = false;
  expect(load.is_behind).toBe(false);
});

it('other work pauses for at most half a second, even after a minute', async () => {
  const { load, pauses } = watchPauses();
  load.begin();
  await load.rest(60_000);
  expect(pauses).toEqual([500]);
});
