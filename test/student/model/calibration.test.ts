/** Thresholds: they hold on scores that were not looked at, and nothing is served for want of evidence. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { createPrng, type Prng } from '../../../src/std/prng.ts';
import {
  calibrateScores,
  calibrateStudent,
  chooseThreshold,
  measureStudent,
  type ScoredStep,
  scoreCrossFitted,
} from '../../../src/student/model/calibration.ts';
import { Student } from '../../../src/student/model/student.ts';
import { fitStudent } from '../../../src/student/model/student-fit.ts';
import { callAnswer, makeOrderStep } from './made-steps.ts';

const makeIndex = (dimensions: number): ExactIndex => new ExactIndex(dimensions);

/** Scores that tell something of being wrong, with runs of several steps whose errors come together. */
function draw(random: Prng, runs: number): ScoredStep[] {
  const scored: ScoredStep[] = [];
  for (let run = 0; run < runs; run++) {
    const isBad = random.chance(0.15);
    for (let i = 0; i < 5; i++) {
      const score = random.float();
      const chance = Math.min(1, score ** 3 * (isBad ? 1.6 : 0.5));
      scored.push({ run_id: `r${run}`, score, is_right: !random.chance(chance) });
    }
  }
  return scored;
}

function errorAt(scored: readonly ScoredStep[], threshold: number): { served: number; error: number } {
  const served = scored.filter(({ score }) => score !== null && score <= threshold);
  const wrong = served.filter(({ is_right }) => !is_right).length;
  return { served: served.length, error: served.length === 0 ? 0 : wrong / served.length };
}

describe('a threshold', () => {
  it('keeps the target on fresh runs, on average and nearly always', () => {
    for (const target of [0.05, 0.1]) {
      let sum = 0;
      let above = 0;
      let served = 0;
      const trials = 200;
      for (let trial = 0; trial < trials; trial++) {
        const random = createPrng(1_000 * target + trial * 7);
        const threshold = chooseThreshold(draw(random, 80), target);
        const fresh = errorAt(draw(random, 400), threshold);
        sum += fresh.error;
        served += fresh.served;
        if (fresh.error > target) above++;
      }
      expect(sum / trials).toBeLessThanOrEqual(target);
      expect(above / trials).toBeLessThanOrEqual(0.1);
      // Not by serving nothing.
      expect(served / trials).toBeGreaterThan(400);
    }
  });

  it('serves nothing when there is too little to go by', () => {
    const right = (count: number): ScoredStep[] =>
      Array.from({ length: count }, (_, i) => ({ run_id: `r${i}`, score: 0.01, is_right: true }));
    expect(chooseThreshold([], 0.05)).toBe(-1);
    expect(chooseThreshold(right(18), 0.05)).toBe(-1);
    expect(chooseThreshold(right(19), 0.05)).toBe(0.01);
    expect(chooseThreshold(right(200), 0.05)).toBe(0.01);
    expect(
      chooseThreshold(
        right(200).map((one) => ({ ...one, score: null })),
        0.05,
      ),
    ).toBe(-1);
    expect(
      chooseThreshold(
        right(200).map((one) => ({ ...one, is_right: false })),
        0.05,
      ),
    ).toBe(-1);
  });

  it('is not moved up by a worse step, nor down by a looser target', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1_000_000 }), (seed) => {
        const scored = draw(createPrng(seed), 60);
        const threshold = chooseThreshold(scored, 0.1);
        expect(chooseThreshold(scored, 0.2)).toBeGreaterThanOrEqual(threshold);
        const worse = scored.map((one, i) => (i === 0 ? { ...one, is_right: false } : one));
        expect(chooseThreshold(worse, 0.1)).toBeLessThanOrEqual(threshold);
      }),
      { numRuns: 50 },
    );
  });
});

describe('thresholds of agents', () => {
  const scores = (agent: string, count: number, wrongAbove: number): ScoredStep[] =>
    Array.from({ length: count }, (_, i) => {
      const score = (i % 100) / 200;
      return { agent, run_id: `${agent} ${Math.floor(i / 4)}`, score, is_right: score <= wrongAbove };
    });

  it('are their own: what one is right about excuses nothing of another', () => {
    const { agents, threshold } = calibrateScores(
      [...scores('good', 2_000, 1), ...scores('bad', 200, 0.2)],
      0.05,
    );
    expect(agents).toMatchObject([
      { agent: 'good', evidence: 'own', errors: 0 },
      { agent: 'bad', evidence: 'own' },
    ]);
    const [good, bad] = agents;
    expect(good!.threshold).toBeGreaterThan(0.45);
    expect(threshold).toBe(good!.threshold);
    expect(bad!.threshold).toBeLessThan(0.22);
    expect(bad!.errors / bad!.served).toBeLessThanOrEqual(0.05);
    // All together they would have kept the target.
    expect(chooseThreshold([...scores('good', 2_000, 1), ...scores('bad', 200, 0.2)], 0.05)).toBeGreaterThan(
      0.4,
    );
  });

  it('come from all that are small where one alone says too little, and never where it was wrong itself', () => {
    const small = ['a', 'b', 'c', 'd'].flatMap((agent) => scores(agent, 24, 1));
    const wrong = scores('d', 24, 1).map((one, i) => ({ ...one, is_right: i !== 5 }));
    const few = scores('e', 8, 1);
    const all = [...small.filter(({ agent }) => agent !== 'd'), ...wrong, ...few];
    const { agents } = calibrateScores(all, 0.05);
    const of = (name: string) => agents.find(({ agent }) => agent === name)!;
    expect(of('a')).toMatchObject({ evidence: 'pooled', served: 24, errors: 0 });
    expect(of('d')).toMatchObject({ evidence: 'pooled', served: 5, errors: 0 });
    // Two runs are known of it.
    expect(of('e')).toMatchObject({ threshold: -1, served: 0 });
  });
});

describe('calibration', () => {
  const steps = Array.from({ length: 120 }, (_, i) => makeOrderStep(i));

  it('gives a threshold at which held-out runs are served rightly', () => {
    const calibration = calibrateStudent(steps, { makeIndex });
    expect(calibration).toMatchObject({ target_error: 0.05, runs: 120, steps: 120, errors: 0 });
    expect(calibration.threshold).toBeGreaterThan(0);
    const student = new Student(fitStudent(steps), makeIndex);
    const held = Array.from({ length: 30 }, (_, i) => makeOrderStep(500 + i));
    const measured = measureStudent(student, calibration.threshold, held);
    expect(measured).toMatchObject({ runs: 30, steps: 30, errors: 0, error: 0 });
    expect(measured.coverage).toBeGreaterThan(0.8);
    expect(measured.served_input_tokens).toBe(100 * measured.served);
    expect(calibrateStudent(steps, { makeIndex })).toEqual(calibration);
  });

  it('serves nothing where answers are drawn by lot', () => {
    const random = createPrng(5);
    const lots = steps.map((one) => ({
      ...one,
      answer: callAnswer(random.chance(0.5) ? 'refund' : 'cancel', {}),
    }));
    const calibration = calibrateStudent(lots, { makeIndex });
    expect(calibration).toMatchObject({ threshold: -1, served: 0 });
    expect(calibration.curve.every(({ error, target_error }) => error <= target_error)).toBe(true);
  });

  it('never lets a run vouch for itself', () => {
    // Each run has an answer of its own: known only to who was taught by that run.
    const own = steps
      .slice(0, 40)
      .flatMap((one) => [one, one].map((its) => ({ ...its, answer: callAnswer(`tool_${its.run_id}`, {}) })));
    const scored = scoreCrossFitted(own, 5, { makeIndex, support_min: 1 });
    expect(scored).toHaveLength(80);
    expect(scored.some(({ is_right }) => is_right)).toBe(false);
  });
});
