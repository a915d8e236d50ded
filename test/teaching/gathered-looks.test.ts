/** Agents that look up the same things in another order in each run, one after the other or several at once. */
import { expect, it } from 'vitest';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { createPrng } from '../../src/std/prng.ts';
import type { LearnedStep } from '../../src/student/model/learned-step.ts';
import { Student } from '../../src/student/model/student.ts';
import {
  CALIBRATION_FOLDS,
  calibrateScores,
  calibrateStudent,
  scoreCrossFitted,
} from '../../src/teaching/calibration.ts';
import { fitStudent, nameAgents } from '../../src/teaching/student-fit.ts';
import { callAnswer, called, digest, textAnswer, tool, user } from '../student/model/made-steps.ts';

/** The lookups that each wish needs. */
const WISHES = {
  'waive the fee': ['get_loan', 'get_fees', 'get_payments'],
  'pause the instalments': ['get_loan', 'get_schedule', 'get_payments'],
  'change the due day': ['get_loan', 'get_schedule', 'get_calendar'],
} as const;
const WORDS = Object.keys(WISHES) as (keyof typeof WISHES)[];
const TOOLS = {
  tools: [...new Set(Object.values(WISHES).flat()), 'decide'].map(tool),
};
const makeIndex = (dimensions: number): ExactIndex => new ExactIndex(dimensions);

/** A run that makes its lookups in an order and in groups that nothing shows, and then decides. */
function makeRun(i: number): LearnedStep[] {
  const prng = createPrng(i + 1);
  const loan = `LN-${70_000 + 13 * i}`;
  const wish = WORDS[i % WORDS.length]!;
  const messages = [user(`Please ${wish} of loan ${loan}.`)];
  const names = WISHES[wish]
    .map((name) => ({ name, at: prng.float() }))
    .sort((x, y) => x.at - y.at)
    .map(({ name }) => name);
  const steps: LearnedStep[] = [];
  const add = (answer: LearnedStep['answer']): void => {
    steps.push({ run_id: `run-${i}`, step: digest(messages, TOOLS), answer });
  };
  while (names.length > 0) {
    const group = names.splice(0, 1 + prng.below(3));
    add({ ...callAnswer('', {}), content: group.flatMap((name) => callAnswer(name, { loan }).content) });
    for (const name of group) messages.push(...called(name, { loan }, JSON.stringify({ [name]: 'read' })));
  }
  add(callAnswer('decide', { loan }));
  return steps;
}

const runs = Array.from({ length: 60 }, (_, i) => makeRun(i));
const steps = runs.flat();
const agent = nameAgents(steps).get(steps[0]!)!;

it('are taught so that the order does not matter, because more of their steps are then served', () => {
  const calibration = calibrateStudent(steps, { makeIndex });
  const usual = calibrateScores(scoreCrossFitted(steps, CALIBRATION_FOLDS, { makeIndex }), 0.05);
  expect([...calibration.gathers]).toEqual([agent]);
  expect(calibration.served).toBeGreaterThan(usual.served);
  expect(calibration.errors).toBe(0);
});

it('get one lookup that the run makes; an audit accepts another one, and a round reads the rest of the run', () => {
  const student = new Student(fitStudent(steps, { gathers: new Set([agent]) }), makeIndex);
  const [first] = makeRun(90);
  const decision = student.decide(first!.step, 0.5);
  if (!decision.covered || decision.answer === null) throw new Error('the step is not covered');
  const loan = 'LN-71170';
  expect(decision.answer.content).toMatchObject([{ name: 'get_loan', input: { loan } }]);
  const other = callAnswer('get_fees', { loan }).content;
  expect(decision.agrees!(other)).toBe(true);
  expect(decision.agrees!(callAnswer('decide', { loan }).content)).toBe(false);
  expect(decision.agrees!(textAnswer('Done.').content)).toBe(false);
  expect(student.agrees(first!.step, student.propose(first!.step), other, true)).toBe(false);
});

it('are taught in the usual way if the order is always the same', () => {
  const fixed = Array.from({ length: 60 }, (_, i) => {
    const loan = `LN-${70_000 + 13 * i}`;
    const messages = [user(`Please waive the fee of loan ${loan}.`)];
    return WISHES['waive the fee'].map((name): LearnedStep => {
      const learned = {
        run_id: `run-${i}`,
        step: digest(messages, TOOLS),
        answer: callAnswer(name, { loan }),
      };
      messages.push(...called(name, { loan }, JSON.stringify({ [name]: 'read' })));
      return learned;
    });
  }).flat();
  expect([...calibrateStudent(fixed, { makeIndex }).gathers]).toEqual([]);
});
