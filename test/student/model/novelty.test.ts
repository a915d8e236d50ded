/**
 * New and missing parts of a step. A missing part counts only if each golden step had it, and a new word counts once.
 */
import { describe, expect, it } from 'vitest';
import { hashString } from '../../../src/student/model/json-values.ts';
import { learnNovelty, NoveltyIndex } from '../../../src/student/model/novelty.ts';
import { MARK } from '../../../src/student/model/step-marks.ts';
import { digest, user } from './made-steps.ts';

const OUTPUT = [MARK.fresh, 11, 1];
const STATUS = [MARK.fresh, 22, 1];

/** Runs of two steps at one stage: a command that prints something, and one that prints nothing. */
const steps = Array.from({ length: 40 }, (_, run) => [
  { run_id: `r${run}`, marks: [...OUTPUT, ...STATUS] },
  { run_id: `r${run}`, marks: [...STATUS] },
]).flat();

it('the absence of a place that only some steps of each run had is not new', () => {
  const novelty = new NoveltyIndex(learnNovelty(steps, new Set()));
  expect(novelty.measure(STATUS)).toBe(0);
  expect(novelty.list(STATUS)).toEqual([]);
});

it('the absence of a place that each step had is new', () => {
  const novelty = new NoveltyIndex(learnNovelty(steps, new Set()));
  expect(novelty.measure(OUTPUT)).toBeGreaterThan(0.9);
  expect(novelty.list(OUTPUT)).toMatchObject([{ place: 22, value: null }]);
});

it('more lines of the task are new if golden tasks had equally many', () => {
  const marksOf = (task: string) => digest([user(task)]).marks;
  const [head, foot, more] = ['Mail from Ada:', 'Please repair it. Thanks.', 'Please ask Ada. Thanks.'];
  const learn = (makeTask: (run: number) => string): NoveltyIndex => {
    const tasks = Array.from({ length: 40 }, (_, run) => ({
      run_id: `r${run}`,
      marks: marksOf(makeTask(run)),
    }));
    return new NoveltyIndex(learnNovelty(tasks, new Set()));
  };
  const told = marksOf(`${head}\n${foot}\n\n${more}`);
  // No word of the added line is new.
  const alike = learn((run) => `${head}\n\n${run % 2 === 0 ? foot : more}`);
  expect(alike.measure(told)).toBeGreaterThan(0.9);
  expect(alike.measure(marksOf(`${head}\n${foot}\n\n`))).toBe(0);
  const varied = learn((run) => `${head}\n${foot}${`\n${more}`.repeat(run % 9)}`);
  expect(varied.measure(marksOf(`${head}\n${foot}${`\n${more}`.repeat(12)}`))).toBeLessThan(0.2);
});

describe('new words', () => {
  const words = (kind: number, place: number, ...values: number[]): number[] =>
    values.flatMap((value) => [kind, place, value]);
  const WORDS = [1, 2, 3, 4, 5, 6, 7, 8];
  /** Some runs name something new in the task, and results repeat it. */
  const learn = (newNames: number, repeats: (name: number) => number): NoveltyIndex =>
    new NoveltyIndex(
      learnNovelty(
        Array.from({ length: 40 }, (_, run) => {
          const name = run < newNames ? 1_000 + run : 100;
          return {
            run_id: `r${run}`,
            marks: [
              ...words(MARK.fresh_word, 1, ...WORDS, repeats(name)),
              ...words(MARK.fresh_word, 2, ...WORDS, repeats(name)),
              ...words(MARK.task_word, 3, ...WORDS, name),
            ],
          };
        }),
        new Set(),
      ),
    );
  const step = (said: number, found: number): number[] => [
    ...words(MARK.fresh_word, 1, ...WORDS, found),
    ...words(MARK.fresh_word, 2, ...WORDS, found),
    ...words(MARK.task_word, 3, ...WORDS, said),
  ];

  it('of the task count as one surprise, although results repeat them', () => {
    const novelty = learn(2, (name) => name);
    expect(novelty.measure(step(100, 100))).toBe(0);
    expect(novelty.measure(step(7_000, 7_000))).toBeCloseTo(novelty.measure(step(7_000, 100)), 10);
    expect(novelty.measure(step(7_000, 7_001))).toBeGreaterThan(novelty.measure(step(7_000, 7_000)));
  });

  it('of results count as no surprise if results of several golden runs had such words', () => {
    const rare = learn(2, (name) => name + 50_000);
    const usual = learn(20, (name) => name + 50_000);
    expect(rare.measure(step(100, 7_001))).toBeGreaterThan(0.3);
    expect(usual.measure(step(100, 7_001))).toBe(0);
  });

  it('of the task count as a surprise, although golden runs had such words', () => {
    expect(learn(20, () => 100).measure(step(7_000, 100))).toBeGreaterThan(0.2);
  });

  it('that name a month are not new where golden runs named other months', () => {
    const [march, june, may] = ['march', 'june', 'may'].map((name) => hashString(name)) as [
      number,
      number,
      number,
    ];
    const novelty = learn(2, (name) => (name === 100 ? march : name));
    expect(novelty.measure(step(100, june))).toBe(0);
    expect(novelty.measure(step(100, may))).toBeGreaterThan(0.3);
    expect(learn(2, (name) => name).measure(step(june, 100))).toBeGreaterThan(0.3);
  });
});
