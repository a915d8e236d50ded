/** The student serves as many steps as calibration promises, even of runs whose ids differ much from golden ones. */

import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import type { LearnedStep } from '../../src/student/model/learned-step.ts';
import { Student } from '../../src/student/model/student.ts';
import type { StudentModel } from '../../src/student/model/student-model.ts';
import { calibrateStudent } from '../../src/teaching/calibration.ts';
import { findIdPlaces } from '../../src/teaching/id-places.ts';
import { fitStudent, limitAgents } from '../../src/teaching/student-fit.ts';
import { callAnswer, called, digest, textAnswer, user } from '../student/model/made-steps.ts';

const makeIndex = (dimensions: number): ExactIndex => new ExactIndex(dimensions);

/** A run about one id: look up, cancel, report. */
function makeRun(i: number, id: number | string, total = 10 + (i % 7)): LearnedStep[] {
  const task = user(`Look at order ${id} please.`);
  const look = called('get_order', { id }, JSON.stringify({ id, state: 'open', total }));
  const cancel = called('cancel', { id }, JSON.stringify({ ok: true }));
  const of = (step: LearnedStep['step'], answer: LearnedStep['answer']): LearnedStep => ({
    run_id: `run-${i}`,
    step,
    answer,
  });
  return [
    of(digest([task]), callAnswer('get_order', { id })),
    of(digest([task, ...look]), callAnswer('cancel', { id })),
    of(digest([task, ...look, ...cancel]), textAnswer(`Order ${id} is closed.`)),
  ];
}

function shuffle<T>(items: T[], random: Prng): T[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [items[i], items[j]] = [items[j]!, items[i]!];
  }
  return items;
}

/** Teaches a student with golden runs in the given order, and lets it serve live steps. */
function serve(golden: LearnedStep[][], live: readonly LearnedStep[]): { promised: number; served: number } {
  const steps = golden.flat();
  const calibration = calibrateStudent(steps, { makeIndex });
  // The model in the form in which a directory stores it.
  const kept = JSON.stringify(limitAgents(fitStudent(steps), calibration.agents));
  const student = new Student(JSON.parse(kept) as StudentModel, makeIndex);
  const covered = live.filter(({ step }) => student.decide(step, calibration.threshold).covered);
  return { promised: calibration.served / calibration.steps, served: covered.length / live.length };
}

const SCHEMES: Record<string, (i: number, random: Prng) => number | string> = {
  'growing numbers': (i) => 1_000 + i,
  'growing numbers as text': (i) => String(40 + 13 * i),
  'random numbers': (_i, random) => random.below(1e9),
  'random texts': (_i, random) => `K${random.below(1e6)}x${random.below(90)}`,
};

describe('the promised share of served steps', () => {
  for (const [name, idOf] of Object.entries(SCHEMES))
    it(`holds in each of 20 trials with ids that are ${name}`, { tags: 'long' }, () => {
      const trials = Array.from({ length: 20 }, (_, trial) => {
        const random = createPrng(trial + 1);
        const golden = Array.from({ length: 30 }, (_, i) => makeRun(i, idOf(i, random)));
        const live = Array.from({ length: 6 }, (_, i) =>
          makeRun(900 + 70 * i, idOf(900 + 70 * i, random)),
        ).flat();
        return serve(shuffle(golden, random), live);
      });
      expect(trials).toEqual(trials.map(() => ({ promised: 1, served: 1 })));
    });

  it('is the same for the same golden runs in another order', () => {
    const random = createPrng(7);
    const golden = Array.from({ length: 12 }, (_, i) => makeRun(i, 500 + i));
    const live = makeRun(400, 9_000);
    expect(serve(golden, live)).toEqual(serve(shuffle([...golden], random), live));
  });

  it('does not hold for amounts that are far from golden ones: these go to the upstream', () => {
    const golden = Array.from({ length: 30 }, (_, i) => makeRun(i, 1_000 + i));
    const [, strange] = makeRun(400, 90_000, 4_000);
    const [, usual] = makeRun(400, 90_000, 12);
    expect(serve(golden, [strange!]).served).toBe(0);
    expect(serve(golden, [usual!]).served).toBe(1);
  });
});

it('ids are recognized in results, and in tasks that repeat them; an amount is no id', () => {
  const steps = Array.from({ length: 10 }, (_, i) => makeRun(i, 1_000 + i)).flat();
  const places = [...findIdPlaces(steps)].map((place) => JSON.parse(place) as unknown);
  expect(places).toContainEqual(['result:get_order', ['id']]);
  expect(places).toContainEqual(['task', ['behind order']]);
  expect(places).not.toContainEqual(['result:get_order', ['total']]);
});
