/** The searchable texts of an exchange, on each side and in each place. */
import { describe, expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';

const headers = ['content-type', 'application/json'];

function listTexts(request: unknown, response: unknown, part: object = {}) {
  const bytes = (body: unknown) => Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return decodeExchange({
    shape: 'messages',
    path: '/v1/messages',
    status: 200,
    request_headers: headers,
    response_headers: headers,
    request_body: bytes(request),
    response_body: bytes(response),
    truncated: false,
    ...part,
  }).listTexts();
}

describe('the texts of a turn', () => {
  it('are those of system, tools, messages, calls, results, errors and the answer', () => {
    const texts = listTexts(
      {
        model: 'm',
        system: 'be brief',
        tools: [{ name: 'look_up', description: 'finds things', input_schema: { properties: { id: {} } } }],
        messages: [
          { role: 'user', content: 'a task' },
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: 'hm', signature: 's' },
              { type: 'tool_use', id: 't1', name: 'look_up', input: { id: 2_512, deep: ['x'] } },
            ],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 't1', content: 'found' },
              { type: 'tool_result', tool_use_id: 't2', content: 'broken', is_error: true },
            ],
          },
        ],
      },
      { id: 'a', content: [{ type: 'text', text: 'done' }], stop_reason: 'end_turn' },
    );
    const told = ({ place, text }: { place: string; text: string }) => `${place}: ${text}`;
    expect(texts.setup.map(told)).toEqual(
      expect.arrayContaining(['system: be brief', 'tools: look_up finds things', 'tools: id']),
    );
    expect(texts.messages.map((list) => list.map(told))).toEqual([
      ['prompt: a task'],
      [
        'thinking: hm',
        'tool_call: look_up',
        'tool_call: id',
        'tool_call: 2512',
        'tool_call: deep',
        'tool_call: x',
      ],
      ['tool_result: found', 'error: broken'],
    ]);
    expect(texts.answer.map(told)).toEqual(['answer: done']);
  });

  it('keep the digits of numbers that a double rounds', () => {
    const body =
      '{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"n":2512292042121000001,"price":12.50}}]}]}';
    const texts = listTexts(body, {}).messages.flat();
    expect(texts.map(({ text }) => text)).toEqual(expect.arrayContaining(['2512292042121000001', '12.50']));
  });

  it('contain the text of an error answer', () => {
    const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
    expect(listTexts({ messages: [] }, error, { status: 529 }).answer).toEqual([
      { place: 'error', text: expect.stringContaining('Overloaded') },
    ]);
  });
});

describe('other bodies', () => {
  it('have the texts of their strings and names, in any form', () => {
    const texts = listTexts(
      { input: ['embed this'] },
      { list: [{ id: 'model-x' }] },
      { shape: null, path: '/x' },
    );
    const [{ place, text }, answer] = texts.messages[0]! as [
      { place: string; text: string },
      { text: string },
    ];
    expect(place).toBe('body');
    expect(text).toBe('input\nembed this');
    expect(answer.text).toBe('list\nid\nmodel-x');
  });

  it('are read as text if they are not JSON, and omitted if they are binary', () => {
    const texts = listTexts('plain words', 'a\0b', { shape: null, path: '/x' });
    expect(texts.messages).toEqual([[{ place: 'body', text: 'plain words' }]]);
  });

  it('replace the texts of a turn that cannot be read', () => {
    const texts = listTexts('{"messages":[{"role":"user","content":"cut of', '');
    expect(
      texts.messages
        .flat()
        .map(({ text }) => text)
        .join(' '),
    ).toContain('cut of');
  });
});
