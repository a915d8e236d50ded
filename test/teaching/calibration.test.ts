/** Thresholds: they hold on unseen scores, and nothing is served without enough evidence. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { Student } from '../../src/student/model/student.ts';
import {
  calibrateScores,
  calibrateStudent,
  chooseThreshold,
  FINAL_COST,
  type ScoredStep,
  scoreCrossFitted,
} from '../../src/teaching/calibration.ts';
import { fitStudent } from '../../src/teaching/student-fit.ts';
import { callAnswer, makeOrderStep } from '../student/model/made-steps.ts';

const makeIndex = (dimensions: number): ExactIndex => new ExactIndex(dimensions);

/** Scores that indicate errors, in runs of several steps whose errors occur together. */
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

const thresholdOf = (scored: readonly ScoredStep[], target: number, isFinal = false): number =>
  chooseThreshold(scored, target, isFinal ? FINAL_COST : 1).threshold;
const right = (count: number): ScoredStep[] =>
  Array.from({ length: count }, (_, i) => ({ run_id: `r${i}`, score: 0.01, is_right: true }));

describe('a threshold', () => {
  it('keeps the target on fresh runs, for nearly every golden set', () => {
    for (const target of [0.05, 0.1]) {
      let above = 0;
      let served = 0;
      const trials = 200;
      for (let trial = 0; trial < trials; trial++) {
        const random = createPrng(1_000 * target + trial * 7);
        const fresh = errorAt(draw(random, 400), thresholdOf(draw(random, 80), target));
        served += fresh.served;
        if (fresh.error > target) above++;
      }
      expect(above / trials).toBeLessThanOrEqual(0.05);
      // A threshold that serves nothing would also keep the target, so this checks that steps are served.
      expect(served / trials).toBeGreaterThan(400);
    }
  });

  it('serves nothing with too little evidence, and needs more if answers are not checked again', () => {
    expect(thresholdOf([], 0.05)).toBe(-1);
    expect(thresholdOf(right(10), 0.05)).toBe(-1);
    expect(thresholdOf(right(11), 0.05)).toBe(0.5);
    expect(thresholdOf(right(25), 0.05, true)).toBe(-1);
    expect(thresholdOf(right(26), 0.05, true)).toBe(0.5);
    // The more an error costs, the more runs it takes.
    const runsAt = (cost: number): number =>
      [...Array(200).keys()].find((runs) => chooseThreshold(right(runs), 0.05, cost).threshold >= 0)!;
    expect([1, 3.5, 10, 100].map(runsAt)).toEqual([11, 26, 41, 77]);
    // Many steps of a few runs count as little evidence.
    const often = Array.from({ length: 20 }, () => right(8)).flat();
    expect(thresholdOf(often, 0.05)).toBe(-1);
    for (const over of [{ score: null }, { is_right: false }])
      expect(
        thresholdOf(
          right(200).map((step) => ({ ...step, ...over })),
          0.05,
        ),
      ).toBe(-1);
  });

  it('needs a higher confidence if it was chosen by the errors', () => {
    expect(chooseThreshold(right(40), 0.05)).toEqual({ threshold: 0.5, confidence: 0.95 });
    const wrongAbove = right(60).map((step, i) => ({
      ...step,
      score: i < 50 ? 0.1 : 0.4,
      is_right: i < 50,
    }));
    expect(chooseThreshold(wrongAbove, 0.05)).toEqual({ threshold: 0.1, confidence: 0.992 });
  });

  it('is not raised by a worse step, nor lowered by a looser target', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1_000_000 }), (seed) => {
        const scored = draw(createPrng(seed), 60);
        const threshold = thresholdOf(scored, 0.1);
        expect(thresholdOf(scored, 0.2)).toBeGreaterThanOrEqual(threshold);
        const worse = scored.map((step, i) => (i === 0 ? { ...step, is_right: false } : step));
        expect(thresholdOf(worse, 0.1)).toBeLessThanOrEqual(threshold);
      }),
      { numRuns: 50 },
    );
  });
});

describe('thresholds of kinds of answers', () => {
  const scores = (agent: string, kind: string, count: number, wrongAbove: number): ScoredStep[] =>
    Array.from({ length: count }, (_, i) => {
      const score = (i % 100) / 200;
      return { agent, kind, run_id: `${agent} ${Math.floor(i / 4)}`, score, is_right: score <= wrongAbove };
    });

  it('are separate: a kind that is right does not compensate for another', () => {
    const all = [
      ...scores('one', 'look', 2_000, 1),
      ...scores('one', 'book', 200, -1),
      ...scores('one', 'text', 400, 0.2),
      ...scores('two', 'look', 20, 1),
    ];
    const { agents, threshold } = calibrateScores(all, 0.05);
    const kindOf = (agent: string, kind: string) =>
      agents
        .find((candidate) => candidate.agent === agent)!
        .kinds.find((candidate) => candidate.kind === kind)!;
    expect(kindOf('one', 'look')).toMatchObject({ threshold: 0.5, refused: null, errors: 0 });
    expect(kindOf('one', 'book')).toMatchObject({ threshold: -1, refused: 'too_wrong', errors: 200 });
    expect(kindOf('one', 'text').refused).toBeNull();
    expect(kindOf('one', 'text').threshold).toBeLessThan(0.22);
    expect(kindOf('one', 'text').error_at_most).toBeLessThanOrEqual(0.05);
    // The second agent has only five runs with this kind.
    expect(kindOf('two', 'look')).toMatchObject({ threshold: -1, refused: 'too_few', errors: 0 });
    expect(agents[1]).toMatchObject({ agent: 'two', threshold: -1, served: 0 });
    expect(threshold).toBe(0.5);
  });

  it('may apply to a form if the rest of its kind is wrong, after more evidence, and to the remainder', () => {
    const of = (stage: string, count: number, isRight: (i: number) => boolean): ScoredStep[] =>
      Array.from({ length: count }, (_, i) => ({
        agent: 'one',
        kind: 'note',
        forms: ['note', `note after ${stage}`],
        run_id: `${stage} ${i}`,
        score: 0.01,
        is_right: isRight(i),
      }));
    const always = () => true;
    const at = (...all: ScoredStep[][]) =>
      calibrateScores(all.flat(), 0.05).agents[0]!.kinds.map(({ kind, refused, steps }) => [
        kind,
        refused,
        steps,
      ]);
    const wrong = of('hold', 40, (i) => i % 2 === 0);
    expect(at(of('look', 60, always), wrong)).toEqual([
      ['note after look', null, 60],
      ['note after hold', 'too_wrong', 40],
    ]);
    // A whole kind without an error needs only 11 runs. A form that is chosen because its kind has errors needs more,
    // so 12 are too few.
    expect(at(of('look', 12, always), wrong)).toEqual([['note', 'too_wrong', 52]]);
    // Two errors do not show that they depend on the form, so other forms need their own evidence.
    const two = of('hold', 34, (i) => i > 1);
    expect(at(of('look', 34, always), two)).toEqual([
      ['note', 'too_wrong', 34],
      ['note after look', null, 34],
    ]);
    expect(at(of('look', 30, always), two)).toEqual([['note', 'too_few', 64]]);
    // Forms that are too rare alone share their evidence.
    expect(at(of('look', 20, always), of('read', 20, always), wrong)).toEqual([
      ['note', null, 40],
      ['note after hold', 'too_wrong', 40],
    ]);
    // If the errors of one form rule it out, the rest of its kind needs more evidence, too.
    const slip = of('hold', 10, (i) => i > 0);
    const once = (i: number) => i > 0;
    expect(at(of('look', 90, once), slip)).toEqual([
      ['note', 'too_few', 90],
      ['note after hold', 'too_wrong', 10],
    ]);
    expect(at(of('look', 96, once), slip)[0]).toEqual(['note', null, 96]);
    // A form that failed on held-out runs excludes no other form.
    const failed = new Set(['one note after look']);
    const kinds = calibrateScores([...of('look', 60, always), ...of('read', 60, always)], 0.05, { failed });
    expect(kinds.agents[0]!.kinds).toMatchObject([
      { kind: 'note', refused: null, steps: 60 },
      { kind: 'note after look', refused: 'too_wrong', threshold: -1, steps: 60 },
    ]);
  });

  it('do not exist for kinds that an operator has excluded, alone or among others', () => {
    const all = ['book', 'look + book', 'look'].flatMap((kind) => scores('one', kind, 400, 1));
    const { agents } = calibrateScores(all, 0.05, { never_serve: ['book'] });
    expect(agents[0]!.kinds.map(({ kind, refused }) => [kind, refused])).toEqual([
      ['book', 'never_serve'],
      ['look', null],
      ['look + book', 'never_serve'],
    ]);
  });

  it('need more evidence if the result of a tool is no longer checked', () => {
    const all = ['look', 'look + book'].flatMap((kind) => scores('one', kind, 80, 1));
    const { agents } = calibrateScores(all, 0.05, { final: new Map([['one', new Set(['book'])]]) });
    expect(agents[0]!.kinds).toMatchObject([
      { kind: 'look', refused: null, is_final: false, runs: 20, confidence: 0.95 },
      { kind: 'look + book', refused: 'too_few', is_final: true, runs: 20, needed_runs: 26 },
    ]);
  });

  it('say how many runs had a kind, and how many it needs', () => {
    const strange = scores('one', 'look', 152, 1).map((step) => ({ ...step, score: 0.6 }));
    const slip = scores('two', 'look', 80, 1);
    slip[5] = { ...slip[5]!, is_right: false };
    const { agents } = calibrateScores([...strange, ...slip], 0.05);
    expect(agents[0]!.kinds).toMatchObject([{ refused: 'too_few', runs: 0, seen_runs: 38, needed_runs: 11 }]);
    const [wrong] = agents[1]!.kinds;
    expect(wrong).toMatchObject({ refused: 'too_few', errors: 1, seen_runs: 20 });
    // With this many runs and no further error the kind is served, and with one run fewer it is not.
    const more = (runs: number): ScoredStep[] => [
      ...slip,
      ...Array.from({ length: runs - 20 }, (_, at) => ({ ...slip[0]!, run_id: `more ${at}`, score: 0.499 })),
    ];
    const at = (runs: number) =>
      calibrateScores(more(runs), 0.05).agents[0]!.kinds.find(({ kind }) => kind === 'look')!;
    expect(at(wrong!.needed_runs)).toMatchObject({ refused: null, threshold: 0.5 });
    expect(at(wrong!.needed_runs - 1).threshold).toBeLessThan(0.5);
  });
});

describe('calibration', () => {
  const steps = Array.from({ length: 120 }, (_, i) => makeOrderStep(i));

  it('returns a threshold at which held-out runs are served correctly', () => {
    const calibration = calibrateStudent(steps, { makeIndex });
    expect(calibration).toMatchObject({ target_error: 0.05, runs: 120, steps: 120, errors: 0 });
    expect(calibration.threshold).toBeGreaterThan(0);
    const student = new Student(fitStudent(steps), makeIndex);
    const held = Array.from({ length: 30 }, (_, i) => makeOrderStep(500 + i));
    const decisions = held.map(({ step, answer }) => ({
      decision: student.decide(step, calibration.threshold),
      content: answer.content,
    }));
    const served = decisions.filter(({ decision }) => decision.covered);
    expect(served.length).toBeGreaterThan(0.8 * held.length);
    for (const { decision, content } of served)
      expect(decision).toSatisfy(() => decision.covered && decision.agrees?.(content) === true);
    expect({ ...calibrateStudent(steps, { makeIndex }), without: null }).toEqual({
      ...calibration,
      without: null,
    });
  });

  it('serves nothing if answers are random', () => {
    const random = createPrng(5);
    const lots = steps.map((step) => ({
      ...step,
      answer: callAnswer(random.chance(0.5) ? 'refund' : 'cancel', {}),
    }));
    const calibration = calibrateStudent(lots, { makeIndex });
    expect(calibration).toMatchObject({ threshold: -1, served: 0 });
    expect(calibration.curve.every(({ error, target_error }) => error <= target_error)).toBe(true);
  });

  it('never uses a run as evidence for its own steps', () => {
    // Each run has a different answer, which only a student that was taught with that run knows.
    const own = steps
      .slice(0, 40)
      .flatMap((step) =>
        [step, step].map((copy) => ({ ...copy, answer: callAnswer(`tool_${copy.run_id}`, {}) })),
      );
    const scored = scoreCrossFitted(own, 5, { makeIndex, support_min: 1 });
    expect(scored).toHaveLength(80);
    expect(scored.some(({ is_right }) => is_right)).toBe(false);
  });
});
