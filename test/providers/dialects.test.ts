/**
 * Made-up answers of compatible servers, and failures: each wire format's reader understands them as the server meant
 * them.
 */

import { describe, expect, it } from 'vitest';
import type { ApiShape } from '../../src/domain/exchange.ts';
import type { NormalTurn, TurnBlock } from '../../src/domain/turn.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { GOLDEN_WIRES } from '../../src/providers/golden-wires.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';
import { findSideCall } from '../../src/providers/side-call.ts';
import type { StoredExchange } from '../../src/providers/stored-exchange.ts';

function stored(
  shape: ApiShape,
  response: string,
  request: object = { model: 'm', messages: [] },
): StoredExchange {
  const type =
    response.startsWith('{') || response.startsWith('[') ? 'application/json' : 'text/event-stream';
  return {
    shape,
    path: '/x',
    status: 200,
    request_headers: [],
    response_headers: ['content-type', type],
    request_body: Buffer.from(JSON.stringify(request)),
    response_body: Buffer.from(response),
    truncated: false,
  };
}

const sse = (...events: object[]): string =>
  `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`;
const delta = (value: object, more: object = {}): object => ({
  choices: [{ index: 0, delta: value, ...more }],
});
const piece = (call: object, more: object = {}): object => delta({ tool_calls: [call] }, more);
const chat = (...events: object[]): NormalTurn => normalizeTurn(stored('chat_completions', sse(...events)))!;
const calls = (blocks: readonly TurnBlock[]): unknown[] =>
  blocks.flatMap((block) =>
    block.type === 'tool_call' ? [[block.id, block.name, JSON.stringify(block.input)]] : [],
  );

it.each(['1e400', '1e20', '-5', '1.5', '"7"', '{}', 'null'])(
  'a count of %s is unknown, and never summed',
  (count) => {
    const body = `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":${count}}}`;
    const { answer } = normalizeTurn(stored('chat_completions', body))!;
    expect(answer.usage).toMatchObject({ input_tokens: 3, output_tokens: null });
  },
);

describe('streamed calls of chat-completions servers', () => {
  it('are read if their name is repeated in each piece', () => {
    const named = (args: string, more: object = {}) => ({
      index: 0,
      function: { name: 'get', arguments: args },
      ...more,
    });
    const { answer } = chat(
      piece(named('', { id: 'a' })),
      piece(named('{"ci', { id: 'a' })),
      piece(named('ty":"Oslo"}')),
      delta({}, { finish_reason: 'tool_calls' }),
    );
    expect(calls(answer.content)).toEqual([['a', 'get', '{"city":"Oslo"}']]);
  });

  it('are read if each piece has a new id', () => {
    const { answer } = chat(
      piece({ index: 0, id: 'a', function: { name: 'get', arguments: '{"a"' } }),
      piece({ index: 0, id: 'b', function: { arguments: ':1}' } }),
    );
    expect(calls(answer.content)).toEqual([['a', 'get', '{"a":1}']]);
  });

  it('are read without ids and indexes', () => {
    const { answer } = chat(
      piece({ function: { name: 'one', arguments: '{"a":1}' } }),
      piece({ function: { name: 'two', arguments: '{"b":' } }),
      piece({ function: { arguments: '2}' } }),
      piece({ function: { name: 'two', arguments: { b: 3 } } }),
    );
    expect(calls(answer.content)).toEqual([
      ['order:1', 'one', '{"a":1}'],
      ['order:2', 'two', '{"b":2}'],
      ['order:3', 'two', '{"b":3}'],
    ]);
  });

  it('are read once if they end with the whole call again', () => {
    const whole = { index: 0, id: 'a', function: { name: 'get', arguments: '{"a":1}' } };
    expect(calls(chat(piece(whole), piece(whole)).answer.content)).toEqual([['a', 'get', '{"a":1}']]);
  });

  it('are distinguished if two have the same id, and their results are paired by their order (17)', () => {
    const call = (name: string) => ({ id: 'same', type: 'function', function: { name, arguments: '{}' } });
    const result = (content: string) => ({ role: 'tool', tool_call_id: 'same', content });
    const messages = [
      { role: 'user', content: 'Go.' },
      { role: 'assistant', tool_calls: [call('one'), call('two')] },
      result('1'),
      result('2'),
    ];
    const { request } = normalizeTurn(stored('chat_completions', '{}', { messages }))!;
    const [, asked, first, second] = request.messages;
    const [firstCall, secondCall] = asked!.content as Extract<TurnBlock, { type: 'tool_call' }>[];
    expect(firstCall!.id).not.toBe(secondCall!.id);
    expect(first!.content).toMatchObject([{ call_id: firstCall!.id, name: 'one' }]);
    expect(second!.content).toMatchObject([{ call_id: secondCall!.id, name: 'two' }]);
  });

  it('keep the digits of object arguments', () => {
    const event =
      '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"id":2512292042121000001,"p":1.0}}}]}}]}';
    const turn = normalizeTurn(stored('chat_completions', `data: ${event}\n\n`))!;
    expect(calls(turn.answer.content)).toEqual([['a', 'f', '{"id":2512292042121000001,"p":1.0}']]);
  });
});

describe('streamed arguments of Messages servers', () => {
  const start = (input: string): string =>
    `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":${input}}}`;
  const args = (json: string): string =>
    `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":${json}}}`;
  const inputOf = (...events: string[]): unknown => {
    const body = events.map((data) => `data: ${data}\n\n`).join('');
    return calls(normalizeTurn(stored('messages', body))!.answer.content);
  };

  it.each([
    ['an object, with every digit', [args('{"id":2512292042121000001,"p":1.0}')]],
    ['an object after empty texts', [args('""'), args('{"id":2512292042121000001,"p":1.0}'), args('""')]],
    [
      'an object in an event with white space',
      [args('{"id":2512292042121000001,"p":1.0}').replace('"partial_json":', '"partial_json" : ')],
    ],
    ['texts', [args('"{\\"id\\":25122920421"'), args('"21000001,\\"p\\":1.0}"')]],
  ])('are %s', (_name, deltas) => {
    const expected = [['a', 'f', '{"id":2512292042121000001,"p":1.0}']];
    expect(inputOf(start('{}'), ...deltas)).toEqual(expected);
  });

  it('are those of the start event if no delta has arguments', () => {
    for (const none of ['""', '" "', 'null', '7', '1.0', 'true'])
      expect(inputOf(start('{"a":1}'), args(none))).toEqual([['a', 'f', '{"a":1}']]);
  });
});

describe('contents and reasoning of chat-completions servers', () => {
  it.each(['reasoning_content', 'reasoning', 'reasoning_text'])('are read from the field %s', (field) => {
    const { answer } = chat(
      delta({ [field]: 'hm ' }),
      delta({ [field]: 'so', content: null }),
      delta({ content: 'Yes' }),
    );
    expect(answer.content).toEqual([
      { type: 'thinking', text: 'hm so', signature: null, redacted: false },
      { type: 'text', text: 'Yes' },
    ]);
  });

  it('include the same reasoning under two names once', () => {
    const { answer } = chat(delta({ reasoning: 'hm', reasoning_content: 'hm' }), delta({ content: 'Yes' }));
    expect(answer.content[0]).toMatchObject({ text: 'hm' });
  });

  it('include images as plain strings (32)', () => {
    const image = (value: unknown) => ({ role: 'user', content: [{ type: 'image_url', image_url: value }] });
    const messages = [
      image('https://a.b/c.png'),
      image({ url: 'data:image/png;base64,QUJD' }),
      image('data:image/png;base64,QUJD'),
    ];
    const { request } = normalizeTurn(stored('chat_completions', '{}', { messages }))!;
    const base64 = { type: 'media', kind: 'image', media_type: 'image/png', source: 'base64', data: 'QUJD' };
    expect(request.messages.map(({ content }) => content[0])).toMatchObject([
      { type: 'media', source: 'url', data: 'https://a.b/c.png' },
      base64,
      base64,
    ]);
  });
});

describe('ends', () => {
  it.each(['stop', 'eos', 'eos_token', 'end_turn', 'STOP', 'COMPLETE', 'stop_sequence'])(
    '%s is an end (33)',
    (word) => {
      const { answer } = chat(delta({ content: 'Yes' }), delta({}, { finish_reason: word }));
      expect(['end_turn', 'stop_sequence']).toContain(answer.stop_reason);
      expect(GOLDEN_WIRES.endsItself('chat_completions', word)).toBe(true);
    },
  );

  it.each<[string, ApiShape, string]>([
    [
      'an error chunk before `stop`',
      'chat_completions',
      sse(delta({ content: 'a' }), { error: { message: 'no' } }, delta({}, { finish_reason: 'stop' })),
    ],
    [
      'an error chunk after `stop`',
      'chat_completions',
      sse(delta({ content: 'a' }, { finish_reason: 'stop' }), { error: { message: 'no' }, choices: [] }),
    ],
    [
      'an error in the choice',
      'chat_completions',
      sse(delta({ content: 'a' }, { finish_reason: 'stop', error: { code: 502, message: 'no' } })),
    ],
    [
      'an end that is an error',
      'chat_completions',
      sse(
        delta({ content: 'a' }),
        delta({ content: '' }, { finish_reason: 'error', native_finish_reason: 'no' }),
      ),
    ],
    [
      'OpenRouter: an error chunk with its own end',
      'chat_completions',
      sse({ ...delta({ content: '' }, { finish_reason: 'error' }), error: { code: 502, message: 'no' } }),
    ],
    [
      'Groq: a stream stopped early',
      'chat_completions',
      sse(delta({ content: 'a' }, { finish_reason: 'stop' }), { ...delta({}), x_groq: { error: 'no' } }),
    ],
    [
      'responses: failed',
      'responses',
      JSON.stringify({ object: 'response', status: 'failed', error: { message: 'no' } }),
    ],
    [
      'a bare error object',
      'chat_completions',
      sse(delta({ content: 'a' }, { finish_reason: 'stop' }), { object: 'error', message: 'no', code: 400 }),
    ],
    [
      'an event named error',
      'chat_completions',
      `${sse(delta({ content: 'a' }, { finish_reason: 'stop' }))}event: error\ndata: {"message":"no"}\n\n`,
    ],
    [
      'a whole answer with an error',
      'chat_completions',
      JSON.stringify({
        error: { message: 'no' },
        choices: [{ message: { content: '' }, finish_reason: 'stop' }],
      }),
    ],
    [
      'Messages: an error after the end',
      'messages',
      sse(
        { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
        { type: 'error', error: { message: 'no' } },
      ),
    ],
    [
      'Messages: an untyped error',
      'messages',
      sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { error: { message: 'no' } }),
    ],
    [
      'responses: completed with an error',
      'responses',
      JSON.stringify({ object: 'response', status: 'completed', output: [], error: { message: 'no' } }),
    ],
    [
      'Gemini: an error in the array',
      'gemini',
      JSON.stringify([
        { candidates: [{ content: { parts: [{ text: 'a' }] }, finishReason: 'STOP' }] },
        { error: { message: 'no' } },
      ]),
    ],
  ])('%s is a failure (29)', (_name, shape, body) => {
    const exchange = stored(shape, body);
    expect(normalizeTurn(exchange)!.answer).toMatchObject({
      stop_reason: null,
      error: expect.stringMatching(/no|finish_reason error/),
    });
    expect(decodeExchange(exchange)).toMatchObject({ stop_reason: null, broke_off: true, answered: null });
  });

  it('`error: null` is not an error', () => {
    const body = { error: null, choices: [{ message: { content: 'Yes' }, finish_reason: 'stop' }] };
    expect(decodeExchange(stored('chat_completions', JSON.stringify(body)))).toMatchObject({
      stop_reason: 'stop',
      broke_off: false,
    });
  });

  it('an answer in a JSON array that is cut off keeps the part that arrived, and counts as failed (34)', () => {
    const chunk = (text: string) => ({ candidates: [{ content: { parts: [{ text }] } }] });
    const whole = JSON.stringify([chunk('one "two" \\'), chunk(' }three'), chunk(' four')]);
    for (const end of [
      whole.indexOf(',{"candidates":[{"content":{"parts":[{"text":" four') + 1,
      whole.length - 4,
    ]) {
      const exchange = stored('gemini', whole.slice(0, end));
      expect(normalizeTurn(exchange)).toMatchObject({
        problem: '',
        answer: { content: [{ type: 'text', text: 'one "two" \\ }three' }], stop_reason: null },
      });
      expect(decodeExchange(exchange)).toMatchObject({
        broke_off: true,
        undecodable: false,
        stop_reason: null,
      });
    }
    expect(decodeExchange(stored('gemini', '[{"a":1} nonsense')).undecodable).toBe(true);
  });
});

it('a golden run can end only with an answer that the model ended itself, and is never one of Gemini', () => {
  for (const word of ['length', 'tool_calls', 'error', 'content_filter', 'constructor', 'abort'])
    expect(GOLDEN_WIRES.endsItself('chat_completions', word)).toBe(false);
  expect(GOLDEN_WIRES.canBeGolden('gemini')).toBe(false);
});

describe('the usage of an answer', () => {
  const usageOf = (usage: object, more: object = {}) =>
    normalizeTurn(stored('chat_completions', sse(delta({ content: 'a' }), { choices: [], usage, ...more })))!
      .answer.usage;

  it('may be in the choice, and in Groq’s field', () => {
    const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };
    const wanted = { input_tokens: 10, output_tokens: 2 };
    expect(chat(delta({ content: 'a' }, { usage })).answer.usage).toMatchObject(wanted);
    expect(chat({ ...delta({}), x_groq: { usage } }).answer.usage).toMatchObject(wanted);
  });

  it('includes cached tokens beside prompt_tokens if the total or their size shows that they are not part of it', () => {
    const apart = { prompt_tokens: 10, completion_tokens: 2, cache_read_input_tokens: 700 };
    expect(usageOf(apart)).toMatchObject({ input_tokens: 10, cache_read_tokens: 700 });
    const total = {
      prompt_tokens: 900,
      completion_tokens: 2,
      cache_read_input_tokens: 700,
      total_tokens: 1602,
    };
    expect(usageOf(total)).toMatchObject({ input_tokens: 900, cache_read_tokens: 700 });
    expect(usageOf({ ...total, total_tokens: 902 })).toMatchObject({ input_tokens: 200 });
  });

  it('of Moonshot, Mistral and Model Studio is read from their own fields', () => {
    const base = { prompt_tokens: 100, completion_tokens: 2, total_tokens: 102 };
    expect(usageOf({ ...base, cached_tokens: 40 })).toMatchObject({
      input_tokens: 60,
      cache_read_tokens: 40,
    });
    expect(usageOf({ ...base, num_cached_tokens: 40 })).toMatchObject({ cache_read_tokens: 40 });
    const details = { cached_tokens: 0, cache_creation_input_tokens: 30 };
    expect(usageOf({ ...base, prompt_tokens_details: details })).toMatchObject({
      input_tokens: 70,
      cache_write_tokens: 30,
    });
  });

  it('of Gemini includes thoughts, and prompts of tools unless the total excludes them', () => {
    const usage = {
      promptTokenCount: 10,
      toolUsePromptTokenCount: 5,
      candidatesTokenCount: 3,
      thoughtsTokenCount: 2,
    };
    const read = (more: object) =>
      normalizeTurn(stored('gemini', JSON.stringify({ usageMetadata: { ...usage, ...more } })))!.answer.usage;
    expect(read({ totalTokenCount: 20 })).toMatchObject({ input_tokens: 15, output_tokens: 5 });
    expect(read({ totalTokenCount: 15 })).toMatchObject({ input_tokens: 10, output_tokens: 5 });
    expect(read({})).toMatchObject({ input_tokens: 15, output_tokens: 5 });
  });

  it('of xAI’s responses has the reasoning tokens beside the output tokens if the total shows so', () => {
    const usage = { input_tokens: 10, output_tokens: 3, output_tokens_details: { reasoning_tokens: 7 } };
    const read = (total_tokens: number) =>
      normalizeTurn(stored('responses', JSON.stringify({ usage: { ...usage, total_tokens } })))!.answer.usage;
    expect(read(20).output_tokens).toBe(10);
    expect(read(13).output_tokens).toBe(3);
  });
});

describe('side calls (35)', () => {
  const ask = (system: string, ...said: string[]) => {
    const messages = said.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content }));
    return normalizeTurn(
      stored('chat_completions', '{}', { messages: [{ role: 'system', content: system }, ...messages] }),
    )!.request;
  };
  it.each([
    'You are a support agent. When the user opens a new topic, greet them again.',
    'You help authors. Write a short title above each answer.',
    'You summarize tickets and give a summary of each.',
  ])('are not recognized by the system prompt alone: %s', (system) => {
    expect(findSideCall(ask(system, 'Where is my order?'), false)).toBeNull();
    expect(findSideCall(ask(system, 'Hi', 'Hello', 'Write a summary of our conversation'), false)).toBeNull();
  });

  it('are recognized if the user asks for the same', () => {
    const request = ask('You are a title generator.', 'Generate a title for this conversation: hello');
    expect(findSideCall(request, false)).toBe('title');
    expect(findSideCall(ask('You are a title generator.', 'hello'), true)).toBe('title');
    const naming = 'You are naming a coding session so the user can pick it out of a long list of sessions.';
    expect(findSideCall(ask(naming, 'Mend it.'), true)).toBe('title');
    const instruction = `Please create a detailed summary of the conversation so far. ${'Keep all file names. '.repeat(10)}`;
    expect(findSideCall(ask('You code.', 'Go', 'Done', instruction), false)).toBe('summary');
  });
});
