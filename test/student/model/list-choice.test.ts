/** Choices of the next action by a whole list: its states and forms, what is left of it, and what the task names. */
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { createPrng, type Prng } from '../../../src/std/prng.ts';
import type { AnswerDigest } from '../../../src/student/model/answer.ts';
import type { StepDigest } from '../../../src/student/model/step.ts';
import { Student } from '../../../src/student/model/student.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';
import { callAnswer, called, digest, tool, user } from './made-steps.ts';

interface Made {
  step: StepDigest;
  answer: AnswerDigest;
}

const tools = ['look', 'act', 'finish'].map(tool);
const FINISH = callAnswer('finish', { done: true });
const NAMES = ['Aurora Kettle', 'Basalt Mug', 'Cirrus Fan', 'Delta Tent', 'Ember Stove', 'Fjord Jacket'];

/** The share of 60 other runs in which a student of 80 runs gives the right answer. */
function shareLearnt(make: (random: Prng) => Made): number {
  const steps = Array.from({ length: 80 }, (_, i) => ({ run_id: `run-${i}`, ...make(createPrng(i + 1)) }));
  const student = new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
  const right = Array.from({ length: 60 }, (_, i) => make(createPrng(900 + i))).filter(
    ({ step, answer }) =>
      JSON.stringify(student.propose(step).answer?.content) === JSON.stringify(answer.content),
  );
  return right.length / 60;
}

const code = (random: Prng): string => `P-${10_000 + random.below(80_000)}`;

function makeStep(task: string, result: string): StepDigest {
  return digest([user(task), ...called('look', { url: 'https://shop.example/all' }, result)], { tools });
}

/** Rows of which one, somewhere among them, may be different. */
function makeRows(
  random: Prng,
  usual: (i: number) => object,
  other: object,
): { rows: object[]; has: boolean } {
  const rows = Array.from({ length: 5 + random.below(6) }, (_, i) => ({ id: code(random), ...usual(i) }));
  const has = random.chance(0.5);
  if (has) Object.assign(rows[random.below(rows.length)]!, other);
  return { rows, has };
}

describe('the next action depends on', () => {
  it('whether an element of a list has a state, at whatever position', () => {
    const make = (random: Prng): Made => {
      const { rows, has } = makeRows(random, () => ({ status: 'paid' }), { status: 'open' });
      const step = makeStep('Go through them.', JSON.stringify({ rows }));
      return { step, answer: has ? callAnswer('act', { on: 'open' }) : FINISH };
    };
    expect(shareLearnt(make)).toBe(1);
  });

  it('whether an element of a list is written in another form', () => {
    const make = (random: Prng): Made => {
      const day = () => 10 + random.below(18);
      const { rows, has } = makeRows(random, () => ({ since: `2026-0${1 + random.below(9)}-${day()}` }), {
        since: `${day()}.0${1 + random.below(9)}.2026`,
      });
      const step = makeStep('Go through them.', JSON.stringify({ rows }));
      return { step, answer: has ? callAnswer('act', { on: 'date' }) : FINISH };
    };
    expect(shareLearnt(make)).toBe(1);
  });

  it('whether calls have named all elements of a list that have a state', () => {
    const make = (random: Prng): Made => {
      const rows = Array.from({ length: 6 }, (_, i) => ({ id: code(random), is_late: i % 2 === 0 }));
      const late = rows.filter(({ is_late }) => is_late);
      const named = random.chance(0.5) ? late : [late[0]!, late[1]!, rows[1]!];
      const step = digest(
        [
          user('Remind all that are late.'),
          ...called('look', {}, JSON.stringify({ rows })),
          ...named.flatMap(({ id }) => called('act', { id }, 'ok')),
        ],
        { tools },
      );
      return { step, answer: named === late ? FINISH : callAnswer('look', { again: true }) };
    };
    expect(shareLearnt(make)).toBe(1);
  });
});

describe('a page', () => {
  const makePage = (random: Prng, isListed: boolean, isNamed = true): Made => {
    const wanted = NAMES[random.below(NAMES.length)]!;
    const shown = NAMES.filter((name) => (name === wanted ? isListed : random.chance(0.6)));
    const links = shown.map((name) => ({ name, path: `/goods/${code(random)}` }));
    const html = links.map(({ name, path }) => `<li><a class="g" href="${path}"><b>${name}</b></a></li>`);
    const next = `/all?page=${2 + random.below(8)}`;
    const page = `<html><ul>${html.join('')}</ul><a rel="next" href="${next}">more</a></html>`;
    const path = links.find(({ name }) => name === wanted)?.path ?? next;
    const url = isNamed ? `https://shop.example${path}` : `https://shop.example/goods/${code(random)}`;
    return {
      step: makeStep(`How much is the ${wanted.toLowerCase()}?`, page),
      answer: callAnswer('look', { url }),
    };
  };

  it('is followed by the link that the task names, or by the next page', () => {
    expect(shareLearnt((random) => makePage(random, random.chance(0.6)))).toBeGreaterThan(0.95);
  });

  it('is not followed by a guess if no link has the address', () => {
    expect(shareLearnt((random) => makePage(random, true, false))).toBe(0);
  });
});
