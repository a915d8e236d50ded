/** What is new in a step: a missing part counts only if each golden step had it. */
import { expect, it } from 'vitest';
import { learnNovelty, NoveltyIndex } from '../../../src/student/model/novelty.ts';
import { MARK } from '../../../src/student/model/step-marks.ts';

const OUTPUT = [MARK.fresh, 11, 1];
const STATUS = [MARK.fresh, 22, 1];

/** Runs of two steps at one stage: a command that prints something, and one that prints nothing. */
const steps = Array.from({ length: 40 }, (_, run) => [
  { run_id: `r${run}`, marks: [...OUTPUT, ...STATUS] },
  { run_id: `r${run}`, marks: [...STATUS] },
]).flat();

it('a place that only some steps of each run had is not new', () => {
  const novelty = new NoveltyIndex(learnNovelty(steps, new Set()));
  expect(novelty.measure(STATUS)).toBe(0);
  expect(novelty.list(STATUS)).toEqual([]);
});

it('a missing place that each step had is new', () => {
  const novelty = new NoveltyIndex(learnNovelty(steps, new Set()));
  expect(novelty.measure(OUTPUT)).toBeGreaterThan(0.9);
  expect(novelty.list(OUTPUT)).toMatchObject([{ place: 22, value: null }]);
});
