import { expect, it } from 'vitest';
import { chooseRest } from '../../src/threads/background-rest.ts';

it('background work rests only if other processes wanted the same cores', () => {
  expect(chooseRest(20, 20)).toBe(0);
  // The time of a helper thread of V8 counts as well.
  expect(chooseRest(20, 30)).toBe(0);
  expect(chooseRest(1, 0)).toBe(0);
  expect(chooseRest(20, 10)).toBe(80);
  expect(chooseRest(60_000, 1)).toBe(500);
});
