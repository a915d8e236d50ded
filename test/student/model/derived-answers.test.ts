/** Answers whose values are chosen, read from words or computed. */
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { createPrng, type Prng } from '../../../src/std/prng.ts';
import type { AnswerDigest } from '../../../src/student/model/answer.ts';
import type { StepDigest } from '../../../src/student/model/step.ts';
import { Student } from '../../../src/student/model/student.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';
import { callAnswer, called, digest, textAnswer, tool, user } from './made-steps.ts';

interface Made {
  step: StepDigest;
  answer: AnswerDigest;
}

const tools = ['look', 'act'].map(tool);

function makeStep(task: string, result: string): StepDigest {
  return digest([user(task), ...called('look', { at: 1 }, result)], { tools });
}

/** Whether a student that has learnt 40 runs gives the right answer in 8 other runs. */
function learns(make: (random: Prng) => Made): boolean {
  const steps = Array.from({ length: 40 }, (_, i) => ({ run_id: `run-${i}`, ...make(createPrng(i + 1)) }));
  const student = new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
  return Array.from({ length: 8 }, (_, i) => make(createPrng(900 + i))).every(({ step, answer }) => {
    const said = student.propose(step).answer?.content;
    return JSON.stringify(said) === JSON.stringify(answer.content);
  });
}

const NAMES = ['Aurora Kettle', 'Basalt Mug', 'Cirrus Fan', 'Delta Tent', 'Ember Stove', 'Fjord Jacket'];
const TIMES = ['06:10', '07:45', '09:20', '11:05', '13:50', '16:30', '18:15', '20:40'];

function shuffled<T>(random: Prng, items: readonly T[]): T[] {
  const left = [...items];
  return items.map(() => left.splice(random.below(left.length), 1)[0]!);
}

function pick<T>(random: Prng, items: readonly T[]): T {
  return items[random.below(items.length)]!;
}

const code = (random: Prng): string => `P-${10_000 + random.below(80_000)}`;

describe('a student learns the value of', () => {
  it('the element that the task names', () => {
    const make = (random: Prng, isRight = true): Made => {
      const items = shuffled(random, NAMES).map((name) => ({ name, id: code(random) }));
      const wanted = pick(random, items);
      const { id } = isRight ? wanted : pick(random, items);
      const step = makeStep(
        `Please order the ${wanted.name.toLowerCase()} today.`,
        JSON.stringify({ items }),
      );
      return { step, answer: callAnswer('act', { id }) };
    };
    expect(learns((random) => make(random))).toBe(true);
    expect(learns((random) => make(random, false))).toBe(false);
  });

  it('an amount in cents, written in whole units', () => {
    const make = (random: Prng, by = 100): Made => {
      const cents = 100 + random.below(9_000_000);
      const written = (cents / by).toLocaleString('en', {
        minimumFractionDigits: 2,
        maximumFractionDigits: 2,
      });
      return {
        step: makeStep('Say it.', JSON.stringify([{ cents }])),
        answer: callAnswer('act', { written }),
      };
    };
    expect(learns((random) => make(random))).toBe(true);
    expect(learns((random) => make(random, 7))).toBe(false);
  });

  it('the number of calls that succeeded', () => {
    const make = (random: Prng, countsFailed = false): Made => {
      const [good, failed] = [1 + random.below(5), random.below(4)];
      const calls = [
        ...Array.from({ length: good }, () => called('look', { at: code(random) }, 'ok')),
        ...Array.from({ length: failed }, () => called('look', { at: code(random) }, 'it failed', true)),
      ];
      const step = digest([user('Count it.'), ...shuffled(random, calls).flat()], { tools });
      return { step, answer: callAnswer('act', { count: countsFailed ? good + 2 * failed : good }) };
    };
    expect(learns((random) => make(random))).toBe(true);
    expect(learns((random) => make(random, true))).toBe(false);
  });

  it('the number of elements, or the sum of their values, in the results of all calls', () => {
    const make = (random: Prng, kind: 'count' | 'sum', unread = 0): Made => {
      const pages = Array.from({ length: 1 + random.below(3) }, () =>
        Array.from({ length: 1 + random.below(6) }, () => ({
          id: code(random),
          cost: random.below(90_000) / 100,
        })),
      );
      const rows = pages.flat();
      const sum = rows.reduce((all, { cost }) => all + Math.round(100 * cost), 0) / 100;
      const calls = [
        ...pages.map((page) => JSON.stringify({ rows: page })),
        ...Array(unread).fill('not a page'),
      ];
      const step = digest(
        [
          user('Tell the total.'),
          ...shuffled(random, calls).flatMap((page) => called('look', { at: code(random) }, page)),
        ],
        { tools },
      );
      const told =
        kind === 'count' ? `There are ${rows.length} rows.` : `The rows cost ${sum.toFixed(2)} EUR.`;
      return { step, answer: textAnswer(told) };
    };
    expect(learns((random) => make(random, 'count'))).toBe(true);
    expect(learns((random) => make(random, 'sum'))).toBe(true);
    // A result that has no list may be an unread page.
    expect(learns((random) => make(random, 'count', 1))).toBe(false);
  });

  it('the cheapest element that meets a condition', () => {
    const trains = (random: Prng) =>
      TIMES.map((departs) => ({
        train: code(random),
        departs,
        price: 20 + random.below(9_000),
        is_full: random.chance(0.4),
      }));
    expect(
      learns((random) => {
        const all = trains(random);
        all[random.below(8)]!.is_full = false;
        const [cheapest] = all.filter(({ is_full }) => !is_full).sort((a, b) => a.price - b.price);
        return {
          step: makeStep('The cheapest train, please.', JSON.stringify({ trains: shuffled(random, all) })),
          answer: callAnswer('act', { train: cheapest!.train }),
        };
      }),
    ).toBe(true);
  });

  it('the line of a page that the task names, and of the line after it', () => {
    const make = (random: Prng, after: number): Made => {
      const wanted = pick(random, NAMES);
      const refs = NAMES.map(() => 100 + random.below(800));
      const lines = shuffled(random, [...NAMES.keys()]).flatMap((at) => [
        `[${refs[at]}] link "${NAMES[at]}"`,
        `  SKU ${refs[at]! + 1_000} in stock`,
      ]);
      const ref = refs[NAMES.indexOf(wanted)]!;
      const answer = callAnswer('act', { ref: String(after === 0 ? ref : ref + 1_000) });
      return { step: makeStep(`Open the ${wanted}.`, lines.join('\n')), answer };
    };
    expect(learns((random) => make(random, 0))).toBe(true);
    expect(learns((random) => make(random, 1))).toBe(true);
  });

  it('a day in words, and of the end of a meeting', () => {
    const days = [
      ['tomorrow', '2026-03-05'],
      ['on Friday', '2026-03-06'],
      ['on Monday', '2026-03-09'],
      ['on March 20', '2026-03-20'],
      ['in two weeks', '2026-03-18'],
    ] as const;
    expect(
      learns((random) => {
        const [words, date] = pick(random, days);
        const hour = 8 + random.below(9);
        const minutes = 45;
        const answer = callAnswer('act', {
          start: `${date}T${String(hour).padStart(2, '0')}:00:00`,
          end: `${String(hour).padStart(2, '0')}:${minutes}`,
        });
        const half = hour < 12 ? 'am' : 'pm';
        const task = `Meet me ${words} at ${hour > 12 ? hour - 12 : hour} ${half} for ${minutes} minutes.`;
        return { step: makeStep(task, JSON.stringify({ free: true })), answer };
      }),
    ).toBe(true);
  });

  it('a day without its year, and refuses one whose year golden runs do not show', () => {
    const ahead = [
      ['March 9', '2026-03-09'],
      ['April 20', '2026-04-20'],
      ['12 May', '2026-05-12'],
      ['3 June', '2026-06-03'],
    ] as const;
    const past = [
      ['30 December', '2026-12-30', '2025-12-30'],
      ['2 February', '2027-02-02', '2026-02-02'],
    ] as const;
    const book = (words: string, date: string): Made => ({
      step: makeStep(`Book a room on ${words}, please.`, JSON.stringify({ free: true })),
      answer: callAnswer('act', { date }),
    });
    const ask = (learned: readonly Made[], words: string): [answer: string, score: number] => {
      const steps = learned.map((made, i) => ({ run_id: `run-${i}`, ...made }));
      const student = new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
      const { answer, score } = student.propose(book(words, '').step);
      return [JSON.stringify(answer?.content), score!];
    };
    const golden = (days: readonly (readonly [string, string])[]): Made[] =>
      Array.from({ length: 40 }, (_, i) => book(...days[i % days.length]!));
    const coming = [...ahead, ...past.map(([words, next]) => [words, next] as const)];
    const near = [...ahead, ...past.map(([words, , last]) => [words, last] as const)];
    const [date, sure] = ask(golden(coming), '10 January');
    const [other, alsoSure] = ask(golden(near), '10 January');
    expect([date, other]).toEqual([
      expect.stringContaining('2027-01-10'),
      expect.stringContaining('2026-01-10'),
    ]);
    const [, unsure] = ask(golden(ahead), '10 January');
    expect(Math.max(sure, alsoSure)).toBeLessThan(0.1);
    expect(unsure).toBeGreaterThan(0.4);
  });

  it('one place in most steps, and of another place in the others', () => {
    expect(
      learns((random) => {
        const name = Array.from({ length: 3 }, () => pick(random, ['ta', 'lo', 'mi', 'ru', 'se'])).join('');
        const files = [`models/${name}.sql`, `jobs/${name}.yaml`, `plans/${name}.txt`] as const;
        const named = files[random.below(2)]!;
        const isNamed = random.chance(0.7);
        const log = isNamed ? `error in ${named}: stopped` : 'error: the input came late';
        const step = digest(
          [
            user('Mend it.'),
            ...called('look', {}, JSON.stringify({ files })),
            ...called('act', { log: true }, log),
          ],
          { tools },
        );
        return { step, answer: callAnswer('look', { file: isNamed ? named : files[2] }) };
      }),
    ).toBe(true);
  });
});
