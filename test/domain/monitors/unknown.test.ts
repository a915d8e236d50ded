/** How the monitors handle missing values, and numbers that a double cannot represent. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { MonitorStep } from '../../../src/domain/monitors/masked-step.ts';
import { sharedFile } from '../../fixtures/shared.ts';
import { firedIn, firesAt, judgeRun, repeat } from './script.ts';

const reported = sharedFile('reported/monitor-steps-beyond-2-53.jsonl');

describe('numbers that a double cannot hold', () => {
  it.skipIf(!reported.is_there)(`keep five ids of 19 digits distinct ${reported.needed}`, () => {
    const steps = readFileSync(reported.path, 'utf8').trim().split('\n');
    expect(firedIn(judgeRun(steps.map((line) => JSON.parse(line) as MonitorStep)))).toEqual([]);
  });

  it.each([
    ['integers', (at: number) => `2512292042121000${String(at).padStart(3, '0')}`],
    ['fractions', (at: number) => `0.12345678901234567890${at}`],
    ['exponents', (at: number) => `${at + 1}e400`],
    ['negative integers', (at: number) => `-90071992547409930${at}`],
  ])('%s that differ are different calls, at any depth', (_kind, number) => {
    const archive = (at: number) => ({
      action: 'archive_message',
      action_input: `{"list":[{"message_id":${number(at)}}]}`,
      observation: 'ok, archived',
    });
    expect(firedIn(judgeRun(repeat(5, archive)))).toEqual([]);
    expect(firesAt(judgeRun(repeat(5, () => archive(7))), 'infinite_loop')).toContain(4);
  });

  it('are the same in another spelling', () => {
    const spellings = ['20', '20.0', '2e1', '2E+1', '200e-1'];
    const steps = spellings.map((number) => ({
      action: 'get_page',
      action_input: `{"page": ${number}}`,
      observation: 'a page',
    }));
    expect(firesAt(judgeRun(steps), 'infinite_loop')).toContain(4);
  });

  it('are quoted with all digits', () => {
    const steps = repeat(3, () => ({
      action: 'archive_message',
      action_input: '{"message_id":2512292042121000001}',
      observation: 'ok, archived',
    }));
    expect(judgeRun(steps).at(-1)!.intervention!.text).toContain('2512292042121000001');
  });
});

describe('for unknown values,', () => {
  const TOOLS = [
    'Read',
    'Bash',
    'Edit',
    'search',
    'run_tests',
    'summarize',
    'cancel_order',
    'wait',
    'ask_user',
  ];
  const task = 'Find out which Customers of Oslo Bergen and Tromsø ordered the Blue Kettle in March';

  it.each(TOOLS)('a tool without input and result raises no alarm: %s', (action) => {
    const look = { action: 'Read', action_input: null, observation: null };
    const outcomes = judgeRun(
      [look, ...repeat(40, () => ({ action, action_input: null, observation: null }))],
      task,
    );
    expect(firedIn(outcomes)).toEqual([]);
  });

  it.each([
    ['Bash', 'npm test'],
    ['search', '{"query":"the blue kettle again"}'],
    ['message_user', 'Which of the orders do you mean, the first one or the second one?'],
    ['delegate', 'Please try again to find the customers that ordered the kettle in another way'],
  ])('calls of %s with unknown results are neither a loop nor fruitless', (action, action_input) => {
    const outcomes = judgeRun(repeat(20, () => ({ action, action_input, observation: null })));
    expect(firesAt(outcomes, 'infinite_loop')).toEqual([]);
    if (action !== 'message_user') expect(firedIn(outcomes)).toEqual([]);
  });

  it('failures with unknown results do not count as the same failure', () => {
    const fail = { action: 'Bash', action_input: null, observation: null, is_error: true };
    expect(firedIn(judgeRun(repeat(8, () => fail)))).toEqual([]);
  });

  it('failures with the same result count as the same failure, even if their input is unknown', () => {
    const fail = { action: 'Bash', action_input: null, observation: 'boom', is_error: true };
    expect(firesAt(judgeRun(repeat(8, () => fail)), 'semantic_loop')).toContain(4);
  });

  it('an empty result is known, so the repeated call is a loop', () => {
    const outcomes = judgeRun(
      repeat(4, () => ({ action: 'list', action_input: '{"of":"a"}', observation: '' })),
    );
    expect(firesAt(outcomes, 'infinite_loop')).toContain(3);
    expect(outcomes.map(({ intervention }) => intervention?.text).join()).toContain('The result was empty.');
  });

  it('equal calls with an unknown call between them are no loop, because it may have changed their results', () => {
    const known = { action: 'list', action_input: '{"of":"a"}', observation: 'none' };
    const unknown = { action: 'Bash', action_input: null, observation: null };
    const outcomes = judgeRun(repeat(12, (at) => (at % 2 === 0 ? known : unknown)));
    expect(firesAt(outcomes, 'infinite_loop')).toEqual([]);
  });

  it('an unknown command counts as a possible check of a change', () => {
    const edit = {
      action: 'edit_file',
      action_input: '{"path":"a.ts","text":"let a = 1"}',
      observation: 'written',
    };
    const done = { action: 'finish', action_input: 'All tests pass now, the parser is fixed.' };
    expect(firesAt(judgeRun([edit, edit, done]), 'verification_skip')).toEqual([2]);
    const bash = { action: 'Bash', action_input: null, observation: null };
    expect(firesAt(judgeRun([edit, bash, done]), 'verification_skip')).toEqual([]);
  });
});
