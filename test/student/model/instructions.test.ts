/** Texts that clients add in the user's name, and clients' forms of results: none of them hides what the user wants. */

import { describe, expect, it } from 'vitest';
import type { TurnMessage } from '../../../src/domain/turn.ts';
import { called, digest, user } from './made-steps.ts';

const system = (text: string): TurnMessage => ({ role: 'system', content: [{ type: 'text', text }] });
const sourceOf = (messages: TurnMessage[], name: string): unknown =>
  digest(messages).sources.find((source) => source.name === name)?.value;

describe("a client's instructions", () => {
  const WORDS = 'The shell is bash.\nNever push to main.';

  it('belong to the system prompt, and the task is what the user wants', () => {
    const task = 'Which port does the service listen on?';
    const inRole = [user(task), system(WORDS)];
    const inTag: TurnMessage[] = [
      {
        role: 'user',
        content: [
          { type: 'text', text: `<system-reminder>\n${WORDS}\n</system-reminder>` },
          { type: 'text', text: task },
        ],
      },
    ];
    for (const messages of [inRole, inTag]) expect(sourceOf(messages, 'task')).toBe(task);
    expect(digest([system(WORDS), user(task)])).toEqual(digest(inRole));
    // A different rule in the client's instructions makes a different agent.
    const other = digest([user(task), system('The shell is bash.\nAlways push to main.')]);
    expect(other.system).not.toEqual(digest(inRole).system);
  });

  it('stay in place after an answer, where the next answer may depend on them', () => {
    const messages = [user('Look.'), ...called('look', {}, 'Seen.'), system('The file has changed.')];
    expect(digest(messages).stage).toBe('look said');
    expect(sourceOf(messages, 'said')).toBe('The file has changed.');
  });

  it('do not include what a user has put into a tag', () => {
    const words = '<query>What now?</query>';
    expect(sourceOf([user(words)], 'task')).toBe(words);
    const part = 'Say <system-reminder>x</system-reminder> to me.';
    expect(sourceOf([user(part)], 'task')).toBe(part);
  });
});

describe('results of tools', () => {
  const calls = ['a', 'b', 'c'];
  const results = (order: readonly string[]): TurnMessage[] => [
    user('Count.'),
    {
      role: 'assistant',
      content: calls.map((id) => ({ type: 'tool_call', id, name: 'count', input: { file: id } })),
    },
    ...order.map(
      (id): TurnMessage => ({
        role: 'tool',
        content: [
          {
            type: 'tool_result',
            call_id: id,
            name: 'count',
            is_error: false,
            content: [{ type: 'text', text: `${id} has lines` }],
          },
        ],
      }),
    ),
  ];

  it('are in the order of their calls, even if a later one arrived first', () => {
    for (const order of [
      ['b', 'a', 'c'],
      ['c', 'b', 'a'],
    ])
      expect(digest(results(order))).toEqual(digest(results(calls)));
    expect(sourceOf(results(['c', 'a', 'b']), 'result:count')).toBe('c has lines');
  });

  it('contain JSON also between a client’s lines', () => {
    const json = { owner: 'Ada', tags: ['x'] };
    const wrapped = `Process exited with code 0\nOutput:\n${JSON.stringify(json)}\n[one file changed]\n`;
    const messages = [user('Look.'), ...called('shell', {}, wrapped)];
    expect(sourceOf(messages, 'result:shell')).toEqual(json);
    expect(sourceOf(messages, 'beside result:shell')).toContain('exited with code 0');
    const broken = 'Output:\n{"owner":"Ada"\n';
    expect(sourceOf([user('Look.'), ...called('shell', {}, broken)], 'result:shell')).toBe(broken);
  });

  it('of a failed command are failures, even without a field that says so', () => {
    const stageOf = (text: string) => digest([user('Look.'), ...called('shell', {}, text)]).stage;
    expect(stageOf('Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n')).toBe('shell');
    expect(stageOf('Wall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n')).toBe('shell!');
    expect(stageOf('Exit code 127\nnot found')).toBe('shell!');
  });
});
