/** Whether errors depend on the form of an answer. Chance must not count as a pattern, and a pattern must be found. */

import { describe, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { calibrateScores } from '../../src/teaching/calibration.ts';
import { doErrorsCluster, type FormAnswer } from '../../src/teaching/error-clusters.ts';

const RUNS = 150;
const STAGES = 5;

/** One answer of each run, in five forms; `isWrong` decides which are wrong. */
function answer(isWrong: (form: number, run: number) => boolean): FormAnswer[] {
  return Array.from({ length: RUNS }, (_, run) => ({
    run_id: `${run}`,
    form: `note after ${run % STAGES}`,
    is_right: !isWrong(run % STAGES, run),
  }));
}

describe('errors in the forms of a kind', () => {
  it('are chance if they are equally frequent in every form', () => {
    let clustered = 0;
    for (let trial = 0; trial < 200; trial++) {
      const random = createPrng(trial);
      if (doErrorsCluster(answer(() => random.chance(0.1)))) clustered++;
    }
    expect(clustered).toBeLessThanOrEqual(3);
  });

  it('are a pattern if most are in one form', () => {
    expect(doErrorsCluster(answer((form, run) => form === 2 && run % 3 > 0))).toBe(true);
    expect(doErrorsCluster(answer((form, run) => form === 2 || run === 3))).toBe(true);
  });

  it('are not a pattern with a single form, or if no answer or every answer is wrong', () => {
    expect(doErrorsCluster([])).toBe(false);
    expect(doErrorsCluster(answer(() => false))).toBe(false);
    expect(doErrorsCluster(answer(() => true))).toBe(false);
    expect(doErrorsCluster(answer((_, run) => run < 20).map((each) => ({ ...each, form: 'note' })))).toBe(
      false,
    );
  });

  it('count once for each run', () => {
    const often = answer((form, run) => form === 0 && run === 0).flatMap((each) =>
      each.is_right ? [each] : Array.from({ length: 40 }, () => each),
    );
    expect(doErrorsCluster(often)).toBe(false);
  });
});

describe('a kind that is wrong in a tenth of the runs', () => {
  it('is rarely served, as a whole or by its forms', { tags: 'long' }, () => {
    let served = 0;
    const trials = 400;
    for (let trial = 0; trial < trials; trial++) {
      const random = createPrng(1_000 + trial);
      const scored = answer(() => random.chance(0.1)).map(({ form, ...each }) => ({
        ...each,
        agent: 'one',
        kind: 'note',
        forms: ['note', form],
        score: random.float() / 2,
      }));
      if (calibrateScores(scored, 0.05).threshold >= 0) served++;
    }
    expect(served / trials).toBeLessThanOrEqual(0.03);
  });
});
