/**
 * Chat completions and responses as wire formats: requests that break their rules, answers that no student gives, and
 * equal steps.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NormalReading } from '../../../src/providers/normal-reading.ts';
import { WIRES as PROVIDER_WIRES } from '../../../src/providers/wires.ts';
import { readStep, WIRES } from '../../../src/student/serving/step-reading.ts';

const head = { betas: [], api_version: '2023-06-01' as const, origin: '' };
const look = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } };
const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } };
const chat = {
  model: 'm',
  tools: [look],
  messages: [
    { role: 'developer', content: 'Look.' },
    { role: 'user', content: 'What is it?' },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_1', content: '{"it":5}' },
  ],
};
const called = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'look', arguments: '{}' };
const result = { type: 'function_call_output', call_id: 'call_1', output: '{"it":5}' };
const responses = {
  model: 'm',
  store: false,
  instructions: 'Look.',
  tools: [{ type: 'function', name: 'look', parameters: { type: 'object' } }],
  input: [{ role: 'user', content: 'What is it?' }, { type: 'reasoning', summary: [] }, called, result],
};

describe('rules of chat-completions', () => {
  const breaches = (more: object) => WIRES.chat_completions.findBreaches({ ...chat, ...more }, head);
  const said = (...messages: object[]) => ({ messages: [...chat.messages.slice(0, 2), ...messages] });
  it.each([
    [{}, []],
    [{ model: '' }, ['model']],
    [{ temperature: 3 }, ['temperature']],
    [{ max_tokens: 0 }, ['max_tokens']],
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, ['stop']],
    [{ stop: 'a' }, []],
    [{ stream_options: { include_usage: true } }, ['stream_options']],
    [{ stream: true, stream_options: { include_usage: true } }, []],
    [{ tools: [look, look] }, ['tools']],
    [{ tools: undefined, tool_choice: 'required' }, ['tool_choice']],
    [{ tool_choice: { type: 'function', function: { name: 'other' } } }, ['tool_choice']],
    [{ messages: [] }, ['messages']],
    [{ messages: 'a' }, ['messages']],
    [said({ role: 'narrator', content: 'a' }), ['role narrator']],
    [said({ role: 'assistant', content: null, tool_calls: [call] }), ['results']],
    [said({ role: 'tool', tool_call_id: 'call_9', content: 'a' }), ['results']],
    [said({ role: 'assistant', content: null }), ['empty message']],
  ])('name what is broken: %j', (more, names) => {
    expect(breaches(more)).toEqual(names);
  });
});

describe('rules of responses', () => {
  const breaches = (more: object) => WIRES.responses.findBreaches({ ...responses, ...more }, head);
  it.each([
    [{}, []],
    [{ input: 'What is it?' }, []],
    [{ input: [] }, ['input']],
    [{ input: 5 }, ['input']],
    [{ input: [called] }, ['results']],
    [{ input: [result] }, ['results']],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, ['item item_reference']],
    [{ input: [{ role: 'narrator', content: 'a' }] }, ['role narrator']],
    [{ max_output_tokens: -1 }, ['max_output_tokens']],
    [{ tool_choice: { type: 'function', name: 'other' } }, ['tool_choice']],
  ])('name what is broken: %j', (more, names) => {
    expect(breaches(more)).toEqual(names);
  });
});

describe('a request that no student serves', () => {
  const why = (wire: 'chat_completions' | 'responses', more: object) =>
    readStep(WIRES[wire], { ...(wire === 'responses' ? responses : chat), ...more }, [])!.step.unsupported;
  it.each([
    [{}, ''],
    [{ n: 1, logprobs: false, store: false }, ''],
    [{ n: 3 }, 'asks for several answers'],
    [{ store: true }, 'asks the provider to keep the answer'],
    [{ modalities: ['text', 'audio'] }, 'asks for sound'],
    [{ functions: [] }, 'uses functions of the older form'],
  ])('of chat-completions: %j', (more, words) => expect(why('chat_completions', more)).toBe(words));
  it.each([
    [{}, ''],
    [{ store: true }, 'the provider keeps the answer (store is not false)'],
    [{ store: null }, 'the provider keeps the answer (store is not false)'],
    [{ background: true }, 'asks for an answer in the background'],
    [{ previous_response_id: 'resp_1' }, 'goes on from an answer that the provider keeps'],
    [{ conversation: 'conv_1' }, 'goes on from an answer that the provider keeps'],
  ])('of responses: %j', (more, words) => expect(why('responses', more)).toBe(words));

  it('names as callable the tools that an answer calls by their names alone', () => {
    const inner = (name: string, ...tools: object[]) => ({ type: 'namespace', name, tools });
    const tools = [
      { type: 'function', name: 'a' },
      { type: 'custom', name: 'b' },
      inner('c', { type: 'function', name: 'd' }, { type: 'function', name: 'twice' }),
      inner('functions', { type: 'custom', name: 'e' }, { type: 'function', name: 'f' }),
      { type: 'function', name: 'twice' },
      { type: 'custom', name: 'both' },
      { type: 'function', name: 'both' },
      { type: 'local_shell' },
      { type: 'web_search' },
    ];
    expect([...WIRES.responses.callable({ tools })!]).toEqual([
      ['a', 'arguments'],
      ['b', 'text'],
      ['e', 'text'],
      ['f', 'arguments'],
      ['local_shell', 'local_shell'],
    ]);
    const chat = [
      { type: 'function', function: { name: 'a' } },
      { type: 'custom', custom: { name: 'b' } },
    ];
    expect([...WIRES.chat_completions.callable({ tools: chat })!]).toEqual([['a', 'arguments']]);
  });

  it('reads the tools that items of the input declare, which break no rule', () => {
    const { tools, input } = responses as unknown as { tools: object[]; input: object[] };
    const item = { type: 'additional_tools', role: 'developer', tools };
    const body = { ...responses, tools: undefined, input: [item, ...input] };
    expect([...WIRES.responses.callable(body)!]).toEqual([...WIRES.responses.callable(responses)!]);
    expect(WIRES.responses.findBreaches(body, head)).toEqual([]);
    for (const other of [{ tools: 'a' }, { content: 'Never look.' }]) {
      const broken = { ...body, input: [{ ...item, ...other }, ...input] };
      expect(WIRES.responses.findBreaches(broken, head)).toEqual(['tools']);
    }
    const [listed, added] = [responses, body].map((body) => readStep(WIRES.responses, body, [])!.step);
    expect(added).toEqual(listed);
  });
});

describe('a step', () => {
  it('is the same on each wire except for its scope', () => {
    const tools = [{ name: 'look', input_schema: { type: 'object' } }];
    const messages = [
      { role: 'user', content: 'What is it?' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: '{"it":5}' }] },
    ];
    const steps = [
      readStep(WIRES.messages, { model: 'm', max_tokens: 9, system: 'Look.', tools, messages }, [])!.step,
      readStep(WIRES.chat_completions, { ...chat, max_tokens: 9 }, [])!.step,
      readStep(WIRES.responses, { ...responses, max_output_tokens: 9 }, [])!.step,
    ];
    expect(new Set(steps.map(({ scope }) => scope)).size).toBe(3);
    const [first, ...others] = steps.map(({ scope: _scope, ...rest }) => rest);
    for (const other of others) expect(other).toEqual(first);
  });

  it('belongs to another agent with other settings, beta header or route, but not with another user or for a stream', () => {
    const scope = (more: object, headers: string[] = []) =>
      readStep(WIRES.chat_completions, { ...chat, ...more }, headers)!.step.scope;
    expect(scope({ user: 'u', stream: true, stream_options: { include_usage: true } })).toBe(scope({}));
    expect(scope({ seed: 5 })).not.toBe(scope({}));
    expect(scope({}, ['OpenAI-Beta', 'a'])).not.toBe(scope({}));
    expect(scope({}, ['anthropic-beta', 'a'])).toBe(scope({}));
    const at = (origin: string) => readStep(WIRES.chat_completions, chat, [], origin)!.step.scope;
    expect(new Set([at(''), at('groq /groq'), at('groq /other'), at('xai /groq')]).size).toBe(4);
    // The body does not contain its route, so the route is part of the scope.
    expect(scope({ origin: 'groq /groq' })).not.toBe(at('groq /groq'));
  });

  it('is read without an error from any body', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (body) => {
        for (const wire of Object.values(WIRES)) {
          readStep(wire, body, []);
          const object = typeof body === 'object' && body !== null && !Array.isArray(body) ? body : {};
          wire.endsWithUser(object);
          wire.stopWords(object);
          wire.callable(object);
        }
      }),
    );
  });
});

it('a frame of a WebSocket is never a step', () => {
  const frame = { type: 'response.create', ...responses };
  expect(readStep(WIRES.responses, frame, [])!.step.unsupported).toBe('came over a WebSocket');
});

describe('an answer on the wire', () => {
  const block = fc.oneof(
    fc.record({ type: fc.constant('text' as const), text: fc.string({ minLength: 1, unit: 'binary' }) }),
    fc.record({
      type: fc.constant('tool_call' as const),
      id: fc.constant(''),
      name: fc.string({ minLength: 1 }),
      input: fc.dictionary(fc.string(), fc.jsonValue()) as fc.Arbitrary<unknown>,
    }),
  );
  const readerOf = (name: 'chat_completions' | 'responses') =>
    PROVIDER_WIRES[name].startAnswer(new NormalReading(), '', []);
  it.each(['chat_completions', 'responses'] as const)(
    'reads the same as events and as one body: %s',
    (name) => {
      const withoutIds = (blocks: object[]) =>
        blocks.map((block) => ('id' in block ? { ...block, id: '' } : block));
      fc.assert(
        fc.property(fc.array(block, { minLength: 1, maxLength: 4 }), fc.nat(20_000), (content, size) => {
          const longer = content.map((block) =>
            block.type === 'text' ? { ...block, text: block.text + 'x'.repeat(size) } : block,
          );
          const answer = {
            content: longer,
            stop_reason: 'end_turn' as const,
            input_tokens: 1,
            output_tokens: 1,
          };
          const decode = (stream: boolean) =>
            new TextDecoder().decode(WIRES[name].writeAnswer(answer, { model: 'm', stream }).body);
          const whole = readerOf(name);
          whole.readWhole(JSON.parse(decode(false)));
          const streamed = readerOf(name);
          for (const frame of decode(true).split('\n\n')) {
            const data = frame.slice(frame.indexOf('data: ') + 6);
            if (frame !== '' && data !== '[DONE]') streamed.readEvent('', JSON.parse(data));
          }
          const read = withoutIds(whole.finish().content);
          expect(withoutIds(streamed.finish().content)).toEqual(read);
          expect(read.length).toBeGreaterThan(0);
        }),
        { numRuns: 60 },
      );
    },
  );
});
