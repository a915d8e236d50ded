/** How answers of models and results of tools become the steps of a run. */

import { expect, it } from 'vitest';
import type { Intervention } from '../../src/client/run.ts';
import type { Step } from '../../src/client/step.ts';
import { AgentSteps } from '../../src/integrations/agent-steps.ts';

/** A run that keeps its steps and returns an intervention. */
function makeRun(...waiting: Intervention[]) {
  const logged: Step[] = [];
  const run = { step: (step: Step) => void logged.push(step), intervention: () => waiting.shift() ?? null };
  return { logged, run, steps: AgentSteps.of(run) };
}

const answer = (text: string, ...ids: string[]) => ({
  text,
  thinking: 'I wonder.',
  calls: ids.map((id) => ({ id, name: `tool-${id}`, input: { id } })),
  tokens: 10,
});
const result = (id: string) => ({ id, observation: `of ${id}`, isError: false });
const nudge: Intervention = { text: 'Stop.', failureType: 'infinite_loop', level: 'nudge' };

it('an answer without a call is logged as a response, and an empty one is not logged', () => {
  const { logged, steps } = makeRun();
  steps.answered(answer(''));
  steps.answered(answer('Done.'));
  expect(logged).toEqual([{ action: 'respond', actionInput: 'Done.', thought: 'I wonder.', tokens: 20 }]);
});

it('calls are logged in the order of their ends, with the thought at the first requested one', () => {
  const { logged, steps } = makeRun();
  steps.answered(answer('Look.', 'a', 'b'));
  steps.returned(result('b'));
  steps.returned(result('a'));
  expect(logged).toMatchObject([
    { action: 'tool-b', actionInput: { id: 'b' }, thought: '', observation: 'of b', tokens: 10 },
    { action: 'tool-a', actionInput: { id: 'a' }, thought: 'Look.', observation: 'of a', tokens: 0 },
  ]);
});

it('the reasoning becomes the thought if the answer has no text beside the call', () => {
  const { logged, steps } = makeRun();
  steps.answered(answer('', 'a'));
  steps.returned(result('a'));
  expect(logged).toMatchObject([{ thought: 'I wonder.' }]);
});

it('results of calls that share an id are paired in order with the calls of the last answer', () => {
  const { logged, steps } = makeRun();
  const asked = (name: string) => ({ id: 'same', name, input: {} });
  steps.answered({ text: '', thinking: '', calls: [asked('never answered')], tokens: 0 });
  steps.answered({ text: '', thinking: '', calls: [asked('first'), asked('second')], tokens: 0 });
  steps.returned({ id: 'same', observation: '1', isError: false });
  steps.returned({ id: 'same', observation: '2', isError: false });
  expect(steps.awaits('same')).toBe(false);
  expect(logged).toMatchObject([
    { action: 'first', observation: '1' },
    { action: 'second', observation: '2' },
  ]);
});

it('the tokens of an agent are separate from those of an agent that is its tool', () => {
  const { logged, steps } = makeRun();
  steps.answered({ ...answer('Ask.', 'a'), tokens: 100 });
  steps.answered(answer('', 'b'));
  steps.returned(result('b'));
  steps.answered({ ...answer('Read.'), tokens: 11 });
  steps.returned(result('a'));
  expect(logged.map(({ tokens }) => tokens)).toEqual([10, 11, 100]);
});

it('the tokens of calls that never end are not lost', () => {
  const { logged, steps } = makeRun();
  steps.answered(answer('Look.', 'a'));
  steps.answered(answer('Look.', 'a'));
  steps.answered(answer('Done.'));
  steps.returned(result('a'));
  expect(logged).toMatchObject([{ action: 'respond', tokens: 20 }, { tokens: 10 }]);
});

it('a call that was not requested is logged under its name', () => {
  const { logged, steps } = makeRun();
  steps.returned({ ...result(''), name: 'clock', input: 'now' });
  expect(logged).toMatchObject([{ action: 'clock', actionInput: 'now', thought: '' }]);
});

it('calls beyond the limit are forgotten, the oldest first', () => {
  const { steps } = makeRun();
  steps.answered(answer('Look.', ...Array.from({ length: 1_001 }, (_, i) => `${i}`)));
  expect([steps.awaits('0'), steps.awaits('1'), steps.awaits('1000')]).toEqual([false, true, true]);
});

it('all integrations that watch a run share its AgentSteps', () => {
  const { run, steps } = makeRun();
  expect(AgentSteps.of(run)).toBe(steps);
  expect(AgentSteps.of({ ...run })).not.toBe(steps);
});

it('an intervention is delivered once, and again only after a failed delivery', () => {
  const { steps } = makeRun(nudge, { ...nudge, level: 'stop' });
  expect(steps.takeIntervention()).toBe(nudge);
  steps.giveBack(nudge);
  expect(steps.takeIntervention()).toBe(nudge);
  expect(steps.takeIntervention()).toMatchObject({ level: 'stop' });
  expect(steps.takeIntervention()).toBeNull();
});
