/** A signal at any moment of a service's start or end: the service ends by itself, for each kind of reader. */
import { describe, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { drawSignal, READERS } from '../fixtures/signal-draw.ts';

const SEED = Number(process.env.SEED ?? 7);
const DRAWS = 3;

describe('a service that gets a signal', () => {
  for (const reader of READERS)
    it(`ends without the watcher when its reader ${reader}`, { tags: 'long' }, async () => {
      const random = createPrng(SEED);
      for (let draw = 0; draw < DRAWS; draw++) expect(await drawSignal(random, reader)).toBe(true);
    });
});
