/**
 * The request to a student's service: the same for the same step in every wire format, and only for steps that lose
 * nothing by the conversion.
 */
import { describe, expect, it } from 'vitest';
import type { RelegationWire } from '../../../src/domain/exchange.ts';
import type { JsonObject } from '../../../src/providers/json-reading.ts';
import { fromChatAnswer } from '../../../src/student/serving/service-chat-completions.ts';
import { fromMessagesAnswer } from '../../../src/student/serving/service-messages.ts';
import { writeServiceRequest } from '../../../src/student/serving/service-request.ts';
import { readServiceStep, UntranslatableStep } from '../../../src/student/serving/service-step.ts';
import { readWireRequest, WIRES } from '../../../src/student/serving/step-reading.ts';

const schema = { type: 'object', properties: { at: { type: 'string' } }, required: ['at'] };
const PNG = 'iVBORw0KGgo=';
const args = (at: string): string => JSON.stringify({ at });

/** One conversation in each wire format, with everything that all three can express. */
const BODIES: Record<RelegationWire, JsonObject> = {
  messages: {
    model: 'large',
    max_tokens: 900,
    temperature: 0.5,
    system: [{ type: 'text', text: 'Look around.', cache_control: { type: 'ephemeral' } }],
    tools: [
      { name: 'look', description: 'Looks', input_schema: schema, cache_control: { type: 'ephemeral' } },
    ],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
    metadata: { user_id: 'a-person' },
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is there?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 's' },
          { type: 'text', text: 'I look.' },
          { type: 'tool_use', id: 'call_1', name: 'look', input: { at: 'a' } },
          { type: 'tool_use', id: 'call_2', name: 'look', input: { at: 'b' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'call_1', content: 'a door' },
          { type: 'tool_result', tool_use_id: 'call_2', content: [{ type: 'text', text: 'a wall' }] },
          { type: 'text', text: 'Go on.' },
        ],
      },
    ],
  },
  chat_completions: {
    model: 'large',
    max_completion_tokens: 900,
    temperature: 0.5,
    user: 'a-person',
    reasoning_effort: 'low',
    tools: [{ type: 'function', function: { name: 'look', description: 'Looks', parameters: schema } }],
    tool_choice: 'required',
    parallel_tool_calls: false,
    messages: [
      { role: 'developer', content: 'Look around.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is there?' },
          { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
        ],
      },
      {
        role: 'assistant',
        content: 'I look.',
        tool_calls: ['a', 'b'].map((at, nth) => ({
          id: `call_${nth + 1}`,
          type: 'function',
          function: { name: 'look', arguments: args(at) },
        })),
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'a door' },
      { role: 'tool', tool_call_id: 'call_2', content: 'a wall' },
      { role: 'user', content: 'Go on.' },
    ],
  },
  responses: {
    model: 'large',
    store: false,
    max_output_tokens: 900,
    temperature: 0.5,
    instructions: 'Look around.',
    include: ['reasoning.encrypted_content'],
    tools: [{ type: 'function', name: 'look', description: 'Looks', parameters: schema, strict: false }],
    tool_choice: 'required',
    parallel_tool_calls: false,
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is there?' },
          { type: 'input_image', image_url: `data:image/png;base64,${PNG}` },
        ],
      },
      { type: 'reasoning', summary: [], encrypted_content: 'abc' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
      { type: 'function_call', call_id: 'call_1', name: 'look', arguments: args('a') },
      { type: 'function_call', call_id: 'call_2', name: 'look', arguments: args('b') },
      { type: 'function_call_output', call_id: 'call_1', output: 'a door' },
      { type: 'function_call_output', call_id: 'call_2', output: 'a wall' },
      { role: 'user', content: 'Go on.' },
    ],
  },
};
const NAMES = ['messages', 'chat_completions', 'responses'] as const;

function ask(
  name: RelegationWire,
  style: 'messages' | 'chat_completions',
  more: JsonObject = {},
): JsonObject {
  const [wire, body] = [WIRES[name], { ...BODIES[name], ...more }];
  const request = readWireRequest(wire, body)!;
  const student = { kind: 'http', endpoint: 'http://model', model: 'small', style } as const;
  return writeServiceRequest(student, readServiceStep({ wire, body, request }));
}

const CHAT = {
  model: 'small',
  stream: false,
  max_tokens: 900,
  temperature: 0.5,
  tools: [{ type: 'function', function: { name: 'look', description: 'Looks', parameters: schema } }],
  tool_choice: 'required',
  parallel_tool_calls: false,
  messages: [
    { role: 'system', content: 'Look around.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is there?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
      ],
    },
    {
      role: 'assistant',
      content: 'I look.',
      tool_calls: (BODIES.chat_completions.messages as JsonObject[])[2]!.tool_calls,
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'a door' },
    { role: 'tool', tool_call_id: 'call_2', content: 'a wall' },
    { role: 'user', content: 'Go on.' },
  ],
};
const text = (words: string) => ({ type: 'text', text: words });
const MESSAGES = {
  model: 'small',
  stream: false,
  max_tokens: 900,
  temperature: 0.5,
  system: 'Look around.',
  tools: [{ name: 'look', description: 'Looks', input_schema: schema }],
  tool_choice: { type: 'any', disable_parallel_tool_use: true },
  messages: [
    {
      role: 'user',
      content: [
        text('What is there?'),
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
      ],
    },
    {
      role: 'assistant',
      content: [
        text('I look.'),
        { type: 'tool_use', id: 'call_1', name: 'look', input: { at: 'a' } },
        { type: 'tool_use', id: 'call_2', name: 'look', input: { at: 'b' } },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'call_1', content: 'a door' },
        { type: 'tool_result', tool_use_id: 'call_2', content: 'a wall' },
        text('Go on.'),
      ],
    },
  ],
};

describe('a step of any wire', () => {
  it.each(NAMES)('is sent to either kind of service in the same words: %s', (name) => {
    expect(ask(name, 'chat_completions')).toEqual(CHAT);
    expect(ask(name, 'messages')).toEqual(MESSAGES);
  });

  it('names a maximum length if the service’s wire requires one', () => {
    const open = { max_completion_tokens: null };
    expect(ask('chat_completions', 'chat_completions', open)).not.toHaveProperty('max_tokens');
    expect(ask('chat_completions', 'messages', open)).toMatchObject({ max_tokens: 4_096 });
  });

  const others = [
    { type: 'web_search' },
    { type: 'custom', name: 'patch' },
    { type: 'namespace', name: 'team', tools: [{ type: 'function', name: 'tell', parameters: schema }] },
  ];
  const own = BODIES.responses.tools as object[];
  it('names only functions, if nothing else was called', () => {
    const more = { tools: [...own, ...others] };
    expect(ask('responses', 'chat_completions', more)).toEqual(CHAT);
    expect(ask('responses', 'messages', more)).toEqual(MESSAGES);
    const called = (name: string, type = 'function_call') => ({
      ...more,
      input: [
        { role: 'user', content: 'Hello' },
        { type, call_id: 'c', name, arguments: '{}', input: {} },
        { type: `${type}_output`, call_id: 'c', output: 'a' },
      ],
    });
    const words = 'a call of a tool that is no function';
    expect(() => ask('responses', 'messages', called('tell'))).toThrow(words);
    expect(() => ask('responses', 'messages', called('patch', 'custom_tool_call'))).toThrow(words);
    expect(() => ask('responses', 'messages', called('look'))).not.toThrow();
    const choice = { ...more, tool_choice: { type: 'web_search' } };
    expect(() => ask('responses', 'messages', choice)).toThrow('a choice of a tool that is no function');
  });

  const both = ['messages', 'chat_completions'] as const;
  const part = (content: object) => ({ messages: [{ role: 'user', content: [content] }] });
  const item = (...items: object[]) => ({ input: [{ role: 'user', content: 'Hello' }, ...items] });
  it.each<[string, RelegationWire, JsonObject, readonly (typeof both)[number][]]>([
    ['a schema for the answer', 'chat_completions', { response_format: { type: 'json_object' } }, both],
    [
      'no tool that is a function',
      'messages',
      { tools: [{ type: 'web_search_20250305', name: 'web' }] },
      both,
    ],
    ['no tool that is a function', 'responses', { tools: [{ type: 'web_search' }] }, both],
    ['no tool that is a function', 'responses', { tools: [{ type: 'custom', name: 'patch' }] }, both],
    [
      'no tool that is a function',
      'chat_completions',
      { tools: [{ type: 'custom', custom: { name: 'p' } }] },
      both,
    ],
    [
      'media other than images',
      'chat_completions',
      part({ type: 'input_audio', input_audio: { data: 'A', format: 'wav' } }),
      both,
    ],
    ['media other than images', 'chat_completions', part({ type: 'file', file: { file_id: 'f' } }), both],
    [
      'media other than images',
      'messages',
      part({ type: 'document', source: { type: 'text', data: 'a' } }),
      both,
    ],
    [
      'media other than images',
      'messages',
      part({ type: 'image', source: { type: 'file', file_id: 'f' } }),
      both,
    ],
    ['a block of type hologram', 'messages', part({ type: 'hologram' }), both],
    [
      'a block of type refusal',
      'chat_completions',
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: null, refusal: 'no' },
          { role: 'user', content: 'b' },
        ],
      },
      both,
    ],
    ['a message that would be empty', 'messages', part({ type: 'text', text: '' }), both],
    [
      'a choice among some tools',
      'responses',
      { tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'look' }] } },
      both,
    ],
    [
      'a call without its result',
      'responses',
      item({ type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' }),
      both,
    ],
    [
      'a call without its result',
      'responses',
      item(
        { type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' },
        { role: 'user', content: 'And?' },
        { type: 'function_call_output', call_id: 'c', output: 'a' },
      ),
      both,
    ],
    [
      'a call whose input is no object',
      'responses',
      item(
        { type: 'custom_tool_call', call_id: 'c', name: 'look', input: 'x' },
        { type: 'custom_tool_call_output', call_id: 'c', output: 'a' },
      ),
      both,
    ],
    ['logit_bias', 'chat_completions', { logit_bias: { 5: -100 } }, both],
    ['a conversation that the provider keeps', 'responses', { previous_response_id: 'resp_1' }, both],
    ['a penalty', 'chat_completions', { frequency_penalty: 1 }, ['messages']],
    ['a temperature above 1', 'responses', { temperature: 1.5 }, ['messages']],
    ['top_k', 'messages', { top_k: 5 }, ['chat_completions']],
    [
      'more stop words than the service takes',
      'messages',
      { stop_sequences: ['a', 'b', 'c', 'd', 'e'] },
      ['chat_completions'],
    ],
  ])('is not sent if the conversion would lose %s: %s', (words, name, more, styles) => {
    for (const style of styles) {
      expect(() => ask(name, style, more)).toThrow(UntranslatableStep);
      expect(() => ask(name, style, more)).toThrow(words);
    }
    for (const style of both) if (!styles.includes(style)) expect(() => ask(name, style, more)).not.toThrow();
  });
});

describe('the tier of a service’s answer', () => {
  const chat = { choices: [{ message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' }] };
  const message = {
    type: 'message',
    role: 'assistant',
    stop_reason: 'end_turn',
    content: [{ type: 'text', text: 'Yes.' }],
  };

  it('is recorded for its price', () => {
    expect(fromChatAnswer({ ...chat, service_tier: 'flex' })?.tier).toBe('flex');
    expect(fromMessagesAnswer({ ...message, usage: { speed: 'fast' } })?.tier).toBe('fast');
  });

  it('is omitted for the standard tier', () => {
    expect(fromChatAnswer({ ...chat, service_tier: 'default' })).not.toHaveProperty('tier');
    expect(fromMessagesAnswer({ ...message, usage: { service_tier: 'standard' } })).not.toHaveProperty(
      'tier',
    );
  });
});
