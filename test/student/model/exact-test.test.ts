/** Fisher's exact test. */
import { expect, it } from 'vitest';
import { chanceOfMore } from '../../../src/student/model/exact-test.ts';

it("Fisher's test gives the chance that at least as many steps of one group have a word", () => {
  // Of 30 steps, 17 have the word. The chance that all of 5 drawn steps have it is 17·16·15·14·13 / (30·29·28·27·26).
  expect(chanceOfMore({ all: 5, having: 5 }, { all: 25, having: 12 })).toBeCloseTo(0.0434, 4);
  expect(chanceOfMore({ all: 8, having: 8 }, { all: 40, having: 0 })).toBeLessThan(1e-8);
  expect(chanceOfMore({ all: 8, having: 0 }, { all: 40, having: 20 })).toBeCloseTo(1, 9);
});
