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

it('does not pause without appends', async () => {
  const { load, pauses } = watchPauses();
  await load.rest(20);
  load.begin()();
  await load.rest(20);
  pauses.length = 0;
  await load.rest(20);
  expect(pauses).toEqual([]);
});

it('leaves half of the time to appends, and nine tenths if the log is behind', async () => {
  const { load, pauses } = watchPauses();
  load.begin()();
  await load.rest(20);
  load.is_behind = true;
  load.begin()();
  await load.rest(20);
  load.is_behind = false;
  load.begin()();
  await load.rest(20);
  expect(pauses).toEqual([20, 180, 20]);
});

it('measures the share of the time that appends took lately', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { load } = watchPauses();
  const append = (tookMs: number, restMs: number) => {
    const end = load.begin()();
    vi.advanceTimersByTime(tookMs);
    end();
    vi.advanceTimersByTime(restMs);
  };
  expect(load.share).toBe(0);
  for (let at = 0; at < 100; at++) append(10, 30);
  expect(load.share).toBeCloseTo(0.25, 1);
  for (let at = 0; at < 100; at++) append(38, 2);
  expect(load.share).toBeGreaterThan(0.9);
  append(0, 5_000);
  expect(load.share).toBeLessThan(0.01);
});

it('pauses for at most half a second, even after a minute of work', async () => {
  const { load, pauses } = watchPauses();
  load.begin();
  await load.rest(60_000);
  expect(pauses).toEqual([500]);
});
