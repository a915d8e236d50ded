/**
 * Signals at random moments of the start or end of a service, for each kind of reader of its output (signal-draw.ts).
 * SIGNAL_DRAWS sets the number of signals.
 */
import { expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { drawSignal, READERS } from '../fixtures/signal-draw.ts';

const SEED = Number(process.env.SEED ?? 7);
const DRAWS = Number(process.env.SIGNAL_DRAWS ?? 200);

it('a service ends at every signal', { timeout: 3_600_000 }, async () => {
  const random = createPrng(SEED + 1);
  let watched = 0;
  for (let draw = 0; draw < DRAWS; draw++)
    if (!(await drawSignal(random, READERS[draw % READERS.length]!))) watched++;
  // A very rare hang has an unknown cause. The watcher ends it within the grace period, so one is allowed.
  expect(watched).toBeLessThanOrEqual(1);
});
