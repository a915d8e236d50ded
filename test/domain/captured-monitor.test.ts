/** The monitors over captured turns: what they report near the end of a run, and what they ignore. */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { CapturedMonitor, type FiredNearEnd } from '../../src/domain/captured-monitor.ts';
import type { NormalTurn, TurnBlock, TurnMessage } from '../../src/domain/turn.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';
import { sharedFile } from '../fixtures/shared.ts';

/** A step of an agent: a call with its result, or words. */
interface Told {
  call?: [name: string, input: unknown];
  result?: string;
  is_error?: boolean;
  says?: string;
}

/** A conversation whose turns are read in order. */
class Conversation {
  readonly #messages: TurnMessage[];
  readonly number: number;

  constructor(task: string, number = 1) {
    this.#messages = [{ role: 'user', content: [{ type: 'text', text: task }] }];
    this.number = number;
  }

  /** Adds the turn for a step. Its result is in the request of the next turn. */
  addTo(monitor: CapturedMonitor, id: number, { call, result = 'ok', is_error = false, says }: Told): void {
    const content: TurnBlock[] = says === undefined ? [] : [{ type: 'text', text: says }];
    if (call !== undefined) content.push({ type: 'tool_call', id: `c${id}`, name: call[0], input: call[1] });
    const request = { messages: [...this.#messages] };
    const turn = { request, answer: { content }, problem: '' } as unknown as NormalTurn;
    monitor.add({ id, conversation: this.number, is_answered: true, is_retry: false }, turn);
    this.#messages.push({ role: 'assistant', content });
    if (call === undefined) return;
    const text: TurnBlock = { type: 'text', text: result };
    const back: TurnBlock = { type: 'tool_result', call_id: `c${id}`, name: null, is_error, content: [text] };
    this.#messages.push({ role: 'tool', content: [back] });
  }
}

function monitorRun(
  task: string,
  steps: readonly Told[],
): { fired: FiredNearEnd[]; failed_calls: number; steps: number } {
  const monitor = new CapturedMonitor();
  const conversation = new Conversation(task);
  steps.forEach((step, at) => {
    conversation.addTo(monitor, at + 1, step);
  });
  return { fired: monitor.finish(), failed_calls: monitor.failed_calls, steps: monitor.steps };
}

const TASK = 'Make the tests of the parser pass.';
const FAILING: Told = {
  call: ['bash', { command: 'npm test' }],
  result: 'FAIL parser.test.ts\nExpected 3, received 4\n1 failed, 11 passed',
  is_error: true,
};
const CLAIM: Told = { says: 'All tests pass now. The parser is fixed.' };
/** Work that makes progress: all steps differ. */
const work = (count: number): Told[] =>
  Array.from({ length: count }, (_, at) => ({
    call: ['read_file', { path: `src/parser/rule-${at}/tests-${at * 7}.ts` }],
    result: `export const rule${at} = ${at * 31}; // the tests of rule ${at} of the parser pass`,
  }));

describe('a captured run', () => {
  it('that repeats a failing test and then claims success fires near its end', () => {
    const { fired, failed_calls, steps } = monitorRun(TASK, [...Array(14).fill(FAILING), CLAIM]);
    expect(steps).toBe(15);
    expect(failed_calls).toBe(14);
    expect(fired.map(({ monitor }) => monitor)).toContain('infinite_loop');
    for (const { exchange_id } of fired) expect(exchange_id).toBeGreaterThan(10);
  });

  it('that looped and then made progress for long has recovered', () => {
    const { fired } = monitorRun(TASK, [
      ...Array(8).fill(FAILING),
      ...work(12),
      { says: 'I have read all of it.' },
    ]);
    expect(fired).toEqual([]);
  });

  it('of a hundred steps still shows a loop that ended eight steps ago', () => {
    const tail = work(8);
    const { fired } = monitorRun(TASK, [...work(85).reverse(), ...Array(8).fill(FAILING), ...tail]);
    expect(fired.map(({ monitor }) => monitor)).toContain('infinite_loop');
    const early = monitorRun(TASK, [...work(85).reverse(), ...Array(8).fill(FAILING), ...tail, ...work(8)]);
    expect(early.fired).toEqual([]);
  });

  it('whose calls differ in the last digit of a long number does not loop', () => {
    const steps = Array.from({ length: 6 }, (_, at) => ({
      call: ['get_order', { id: `25122920421210000${10 + at}` }] as [string, unknown],
      result: `{"order":${at},"state":"sent on day ${at}"}`,
    }));
    expect(monitorRun('Check the orders.', steps).fired).toEqual([]);
  });

  it('has a task without what its client adds for the model', () => {
    // In the form of Claude Code: with two reminders before the prompt.
    const added = [
      '<system-reminder>\nSessionStart hook additional context: use the Understudy tools.\n</system-reminder>',
      '<system-reminder>\n# currentDate\nToday is 2026/11/29.\n# claudeMd\nUse Node 22 and Vitest in this project.\n</system-reminder>',
    ].join('\n');
    const agent = { description: 'Looks', prompt: 'Look for it.', subagent_type: 'general-purpose' };
    const steps: Told[] = [{ call: ['Agent', agent], result: 'It is here.' }, { says: 'It is here.' }];
    const drifts = (task: string) =>
      monitorRun(task, steps).fired.some(({ monitor }) => monitor === 'silent_topic_drift');
    expect(drifts(`${added}\nWhere is it?`)).toBe(false);
    expect(drifts(`${added}\nWhere does Acme keep the contract with Globex of March 2024?`)).toBe(true);
  });

  it('of two agents that do the same does not loop', () => {
    const monitor = new CapturedMonitor();
    let id = 0;
    for (let agent = 1; agent <= 6; agent++)
      new Conversation('List the folder.', agent).addTo(monitor, ++id, { call: ['list', { path: '.' }] });
    expect(monitor.finish()).toEqual([]);
    expect(monitor.steps).toBe(6);
  });

  it('pairs the results of calls that share an id in the order of the calls', () => {
    const monitor = new CapturedMonitor();
    const call = (city: string): TurnBlock => ({
      type: 'tool_call',
      id: 'call',
      name: 'get',
      input: { city },
    });
    const back = (is_error: boolean): TurnBlock => ({
      type: 'tool_result',
      call_id: 'call',
      name: null,
      is_error,
      content: [],
    });
    const asked: TurnMessage[] = [{ role: 'user', content: [{ type: 'text', text: 'Go.' }] }];
    const answer = [call('Oslo'), call('Bergen')];
    const told = (messages: TurnMessage[], content: TurnBlock[]) =>
      ({ request: { messages }, answer: { content }, problem: '' }) as unknown as NormalTurn;
    monitor.add({ id: 1, conversation: 1, is_answered: true, is_retry: false }, told(asked, answer));
    const next: TurnMessage[] = [
      ...asked,
      { role: 'assistant', content: answer },
      { role: 'tool', content: [back(false), back(true)] },
    ];
    monitor.add({ id: 2, conversation: 1, is_answered: true, is_retry: false }, told(next, []));
    expect(monitor.failed_calls).toBe(1);
    expect(monitor.steps).toBe(2);
  });
});

const trajectories = sharedFile('trajectories/tune.jsonl.gz');

describe.skipIf(!trajectories.is_there)(`labelled runs ${trajectories.needed}`, () => {
  it('raise no alarm if they passed, and some alarms if they failed', { tags: 'long' }, () => {
    const fired = { passed: 0, failed: 0 };
    const runs = gunzipSync(readFileSync(trajectories.path)).toString().trim().split('\n');
    for (const line of runs) {
      const { passed, messages } = JSON.parse(line) as {
        passed: boolean;
        messages: { role: string; tool_calls?: [] }[];
      };
      const monitor = new CapturedMonitor();
      messages.forEach((message, at) => {
        if (message.role !== 'assistant') return;
        const finish_reason = message.tool_calls === undefined ? 'stop' : 'tool_calls';
        const turn = normalizeTurn({
          shape: 'chat_completions',
          path: '/v1/chat/completions',
          status: 200,
          request_headers: [],
          response_headers: ['content-type', 'application/json'],
          request_body: Buffer.from(JSON.stringify({ model: 'm', messages: messages.slice(0, at) })),
          response_body: Buffer.from(
            JSON.stringify({ id: 'a', choices: [{ index: 0, message, finish_reason }] }),
          ),
          truncated: false,
        });
        monitor.add({ id: at, conversation: 1, is_answered: true, is_retry: false }, turn!);
      });
      if (monitor.finish().length > 0) fired[passed ? 'passed' : 'failed'] += 1;
    }
    expect(fired.passed).toBe(0);
    expect(fired.failed).toBeGreaterThan(3);
  });
});
