/** The reference implementation of shared runs, in memory. Test thread. */
import { expect, it } from 'vitest';
import { MemoryRuns } from '../../../src/storage/memory/runs.ts';
import { MemoryTruth } from '../../../src/storage/memory/truth.ts';
import { addressOf, describeRuns, takeOne } from './runs-suite.ts';

describeRuns('memory', async () => {
  const truth = new MemoryTruth();
  return { truth, runs: new MemoryRuns(truth), ripen: async () => {} };
});

it('an actor that another box has just taken cannot be taken', async () => {
  let isHeld = true;
  const runs = new MemoryRuns(new MemoryTruth(), () => isHeld);
  const [a, b] = [await runs.open('a'), await runs.open('b')];
  const term = await takeOne(a, 'run');
  expect(await b.take([addressOf('run')])).toEqual([null]);
  expect(await takeOne(a, 'run')).toBeGreaterThan(term);
  isHeld = false;
  expect(await b.take([addressOf('run')])).toMatchObject([{ rows: [] }]);
});
