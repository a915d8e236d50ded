/** The sequential test: it is a fair bet while the promise is just kept, and it notices changes. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createPrng } from '../../../src/std/prng.ts';
import {
  CLEARED,
  doubt,
  evidenceOf,
  observe,
  startDrift,
  startSuspicion,
} from '../../../src/student/model/drift-test.ts';

describe('the test for drift', () => {
  it('starts without evidence', () => {
    expect(evidenceOf(startDrift())).toBe(1);
  });

  it('is a fair bet if errors are exactly as frequent as promised: its mean over all courses is 1', () => {
    for (const promise of [0.05, 0.2]) {
      // All sequences of twelve observations, each with its probability.
      let mean = 0;
      for (let course = 0; course < 2 ** 12; course++) {
        const state = startDrift();
        let chance = 1;
        let evidence = 1;
        for (let at = 0; at < 12; at++) {
          const isWrong = ((course >> at) & 1) === 1;
          chance *= isWrong ? promise : 1 - promise;
          evidence = observe(state, isWrong, promise);
        }
        mean += chance * evidence;
      }
      expect(mean).toBeCloseTo(1, 9);
    }
  });

  it('falls on average if errors are rarer than promised', () => {
    let mean = 0;
    for (let course = 0; course < 2 ** 10; course++) {
      const state = startDrift();
      let chance = 1;
      let evidence = 1;
      for (let at = 0; at < 10; at++) {
        const isWrong = ((course >> at) & 1) === 1;
        chance *= isWrong ? 0.02 : 0.98;
        evidence = observe(state, isWrong, 0.05);
      }
      mean += chance * evidence;
    }
    expect(mean).toBeLessThan(1);
  });

  it('detects a change within a dozen observations, after a thousand good ones', () => {
    const state = startDrift();
    for (let at = 0; at < 1_000; at++) observe(state, false, 0.05);
    let wrong = 0;
    while (evidenceOf(state) < 1 / 0.001) {
      observe(state, true, 0.05);
      wrong++;
    }
    expect(wrong).toBeLessThan(12);
  });

  it('stays finite for any observations', () => {
    fc.assert(
      fc.property(
        fc.array(fc.boolean(), { maxLength: 2_000 }),
        fc.double({ min: 0.005, max: 0.5, noNaN: true }),
        (seen, p) => {
          const state = startDrift();
          for (const isWrong of seen) expect(Number.isFinite(observe(state, isWrong, p))).toBe(true);
          for (let at = 0; at < 300; at++) observe(state, true, p);
          expect(state.bets.every(Number.isFinite)).toBe(true);
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe('a suspicion', () => {
  it('is cleared by answers that agree, and not by answers that mostly do not', () => {
    let suspicion = startSuspicion(0.05);
    let agreed = 0;
    for (; suspicion > -CLEARED; agreed++) suspicion = doubt(suspicion, false, 0.05);
    expect(agreed).toBeGreaterThan(10);
    expect(agreed).toBeLessThan(60);
    const prng = createPrng(4);
    suspicion = startSuspicion(0.05);
    for (let at = 0; at < 400; at++) suspicion = doubt(suspicion, prng.float() < 0.5, 0.05);
    expect(suspicion).toBeGreaterThan(0);
  });
});
