/** How long other work pauses so that appends have time (src/storage/capture/append-load.ts). */
import { expect, it } from 'vitest';
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

it('never pauses for more than half a second, so that a file is sealed under any load', async () => {
  const { load, pauses } = watchPauses();
  load.begin();
  await load.rest(60_000);
  expect(pauses).toEqual([500]);
});
