/** Titles of agent variants: the first words that all golden prompts have in common. */
import { expect, it } from 'vitest';
import { makeGoldenSteps } from '../../bench/order-agent.ts';
import type { LearnedStep } from '../../src/student/model/learned-step.ts';
import { cutSentences } from '../../src/student/model/prompt-text.ts';
import { findAgentTitles } from '../../src/teaching/agent-titles.ts';

const [step] = makeGoldenSteps(1, 1);
const titlesOf = (...prompts: string[]) => {
  const named = prompts.map((text): [LearnedStep, string] => [
    { ...step!, step: { ...step!.step, prompt: [cutSentences(text)] } },
    'a',
  ]);
  return findAgentTitles(new Map(named)).get('a');
};

it('titles are the first words of the first sentence', () => {
  expect(titlesOf('You help customers of a shop. Never promise a refund.')).toBe(
    'You help customers of a shop',
  );
  expect(titlesOf('\n# Role\n\nYou review code,')).toBe('You review code');
});

it('titles end before the first word that differs between prompts', () => {
  expect(titlesOf('You help Ann Smith with orders.', 'You help Bob Miller with orders.')).toBe('You help');
  expect(titlesOf('Ann asks.', 'Bob asks.')).toBeUndefined();
});

it('titles are short, and empty without words', () => {
  expect(titlesOf(`You ${'really '.repeat(50)}help.`)!.length).toBeLessThanOrEqual(60);
  expect(titlesOf('')).toBeUndefined();
  expect(titlesOf('---')).toBeUndefined();
});
