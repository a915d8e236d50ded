/** The queues of a box's commits and take-overs, over a database in memory. Test thread. */
import { expect, it } from 'vitest';
import { MemoryRuns } from '../../../src/storage/memory/runs.ts';
import { MemoryTruth } from '../../../src/storage/memory/truth.ts';
import { RunsSender } from '../../../src/storage/shared/runs-sender.ts';
import { addressOf } from './runs-suite.ts';

const WAITING = 16_384;

it('take-overs that must wait, because another box has just taken the actor, count towards the limit', async () => {
  const runs = new MemoryRuns(new MemoryTruth(), () => true);
  const addresses = Array.from({ length: WAITING + 1 }, (_, at) => addressOf(`${at}`));
  for (const address of addresses) runs.owners.set(address.toString('latin1'), { box: 'other', term: 1 });
  let held = 0;
  const allHeld = Promise.withResolvers<void>();
  const sender = await RunsSender.start(
    runs,
    { reach: async () => true },
    { patience_ms: 60_000, held_ms: 60_000 },
    {
      onTakeOvers: () => {},
      onLost: () => {},
      onTick: () => {},
      onHeld: () => {
        if (++held === WAITING) allHeld.resolve();
      },
    },
  );
  const takings = addresses.slice(1).map((address) => sender.take(address));
  const ended = Promise.allSettled(takings);
  await allHeld.promise;
  await expect(sender.take(addresses[0]!)).rejects.toThrow('too many calls wait for the database');
  await sender.close();
  expect((await ended).every(({ status }) => status === 'rejected')).toBe(true);
});
