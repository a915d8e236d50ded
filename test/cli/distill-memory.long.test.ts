/** A round that would exceed its memory bound uses less, in a real thread with a real bound. */
import { expect, it } from 'vitest';
import type { RoundOptions } from '../../src/teaching/round.ts';
import { runRoundInThread } from '../../src/teaching/round-thread.ts';

it('distill starts again with half as many runs until they fit into memory', async () => {
  const told: string[] = [];
  const teller = { tell: () => {}, announce: (what: string) => told.push(what), warn: () => {} };
  const entry = new URL('../fixtures/full-round.ts', import.meta.url);
  const round = await runRoundInThread({} as RoundOptions, teller, entry);
  expect(round).toEqual({ room: 1 / 8 });
  expect(told).toEqual(
    ['1/2', '1/4', '1/8'].map(
      (share) => `memory is full: beginning again with ${share} of what a round takes at most`,
    ),
  );
});
