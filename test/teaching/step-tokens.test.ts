/** The tokens of a step: in order, each once; adjacent signs are one token. */
import { expect, it } from 'vitest';
import { listStepTokens } from '../../src/teaching/step-tokens.ts';

it('tokens are words and signs of all sources except `progress`', () => {
  const step = {
    sources: [
      { name: 'task', value: 'Is a <= b, or a += b' },
      { name: 'progress', value: 'hidden' },
      { name: 'result:count', value: { ordered: true } },
    ],
  };
  const tokens = listStepTokens(step);
  expect(tokens).toContain('<=');
  expect(tokens).toContain('+=');
  expect(tokens).toContain('ordered');
  expect(tokens).not.toContain('hidden');
  expect(new Set(tokens).size).toBe(tokens.length);
  expect(tokens.indexOf('is')).toBeLessThan(tokens.indexOf('ordered'));
  expect(listStepTokens(step)).toBe(tokens);
});

it('tokens come only from the beginning of a long step', () => {
  const value = `${Array.from({ length: 2_000 }, () => 'word').join(' ')} behind`;
  expect(listStepTokens({ sources: [{ name: 'task', value }] })).not.toContain('behind');
});
