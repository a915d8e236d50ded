import { expect, it } from 'vitest';
import { announceSpare, releaseAllSpare } from '../../src/std/spare-memory.ts';

it('every registered owner is asked each time to free memory', () => {
  const asked: string[] = [];
  const owners = ['first', 'second'].map((name) => ({ releaseSpare: () => asked.push(name) }));
  for (const owner of owners) announceSpare(owner);
  releaseAllSpare();
  expect(asked).toEqual(['first', 'second']);
  releaseAllSpare();
  expect(asked).toEqual(['first', 'second', 'first', 'second']);
  expect(owners).toHaveLength(2);
});
