/** The fingerprints that group unlabelled requests into runs: what they must include, and what they must ignore. */
import { describe, expect, it } from 'vitest';
import type { ApiShape } from '../../src/domain/exchange.ts';
import { type DecodedExchange, decodeExchange } from '../../src/providers/decode.ts';
import { haveRecordings, readRecordings } from './recordings.ts';

function decode(
  shape: ApiShape,
  request: unknown,
  answer: unknown = {},
  path = '/v1/messages',
): DecodedExchange {
  return decodeExchange({
    shape,
    path,
    status: 200,
    request_headers: [],
    response_headers: ['content-type', 'application/json'],
    request_body: Buffer.from(JSON.stringify(request)),
    response_body: Buffer.from(JSON.stringify(answer)),
    truncated: false,
  });
}

const prefixes = (request: unknown): string[] => decode('messages', request).conversation;

const CALL = { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: 'a', depth: 2 } };
const OPENING = { system: 'You mend code.', messages: [{ role: 'user', content: 'Mend it.' }] };
const ANSWER = {
  id: 'msg_1',
  type: 'message',
  stop_reason: 'tool_use',
  content: [{ type: 'thinking', thinking: 'hm', signature: 's' }, { type: 'text', text: 'Looking.' }, CALL],
};
const RESULT = {
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'file a' }],
};
const SECOND = {
  ...OPENING,
  messages: [...OPENING.messages, { role: 'assistant', content: ANSWER.content }, RESULT],
};

describe('conversation fingerprints', () => {
  it('have one value for each prefix; a request and its continuation share the values of the earlier prefixes', () => {
    const first = prefixes(OPENING);
    const second = prefixes(SECOND);
    expect(first).toHaveLength(1);
    expect(second).toHaveLength(3);
    expect(second[0]).toBe(first[0]);
    expect(new Set(second).size).toBe(3);
    for (const hash of second) expect(hash).toMatch(/^[\w-]{22}$/);
  });

  it('contain the hash of a turn’s answer in the turn that continues it', () => {
    expect(prefixes(SECOND)[1]).toBe(decode('messages', OPENING, ANSWER).answered);
  });

  it.each([
    [
      'moving cache markers',
      {
        system: [{ type: 'text', text: 'You mend code.', cache_control: { type: 'ephemeral' } }],
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: 'Mend it.', cache_control: { type: 'ephemeral' } }],
          },
          { role: 'assistant', content: ANSWER.content },
          { role: 'user', content: [{ ...RESULT.content[0], cache_control: { type: 'ephemeral' } }] },
        ],
      },
    ],
    [
      'key order and dropped thinking',
      {
        messages: [
          { content: 'Mend it.', role: 'user' },
          {
            content: [
              { text: 'Looking.', type: 'text' },
              { input: { depth: 2, path: 'a' }, name: 'read', id: 'toolu_1', type: 'tool_use' },
            ],
            role: 'assistant',
          },
          RESULT,
        ],
        system: 'You mend code.',
      },
    ],
    [
      'a tool result as text blocks',
      {
        ...SECOND,
        messages: [
          ...SECOND.messages.slice(0, 2),
          {
            role: 'user',
            content: [
              {
                type: 'tool_result',
                tool_use_id: 'toolu_1',
                is_error: false,
                content: [
                  { type: 'text', text: 'file ' },
                  { type: 'text', text: 'a' },
                ],
              },
            ],
          },
        ],
      },
    ],
    ['another system prompt', { ...SECOND, system: 'It is Monday, the 3rd.' }],
  ])('ignore %s', (_name, request) => {
    expect(prefixes(request)).toEqual(prefixes(SECOND));
  });

  it('recognize an answer after earlier messages were changed or removed', () => {
    const asked = decode('messages', OPENING, ANSWER);
    const trimmed = decode('messages', {
      messages: [{ role: 'user', content: 'Go on.' }, ...SECOND.messages.slice(1)],
    });
    expect(trimmed.conversation).not.toContain(asked.answered);
    expect(asked.answer_alone).toMatch(/^[\w-]{22}$/);
    expect(trimmed.last_answer_alone).toBe(asked.answer_alone);
    expect(trimmed.last_answer_at).toBe(1);
    const unlike = structuredClone(SECOND);
    (unlike.messages[1]!.content as { id?: string }[])[2]!.id = 'toolu_2';
    expect(decode('messages', unlike).last_answer_alone).not.toBe(asked.answer_alone);
  });

  it('recognize an answer by its calls, even if a client changed the text around them', () => {
    const asked = decode('messages', OPENING, ANSWER);
    const trimmed = structuredClone(SECOND);
    trimmed.messages[1] = { role: 'assistant', content: [{ type: 'text', text: 'Looking' }, CALL] } as never;
    expect(decode('messages', trimmed).last_answer_alone).toBe(asked.answer_alone);
    const text = `${'Word after word. '.repeat(5)}\n`;
    const said = { ...ANSWER, stop_reason: 'end_turn', content: [{ type: 'text', text }] };
    const echo = { messages: [...OPENING.messages, { role: 'assistant', content: text.trim() }, RESULT] };
    expect(decode('messages', echo).last_answer_alone).toBe(decode('messages', OPENING, said).answer_alone);
  });

  it('do not recognize a short answer without a call, because it is not unique', () => {
    const short = { ...ANSWER, stop_reason: 'end_turn', content: [{ type: 'text', text: 'Done.' }] };
    expect(decode('messages', OPENING, short).answer_alone).toBeNull();
    const long = { ...short, content: [{ type: 'text', text: 'Done, and this is how. '.repeat(4) }] };
    expect(decode('messages', OPENING, long).answer_alone).not.toBeNull();
    expect(decode('messages', OPENING, { ...long, stop_reason: null }).answer_alone).toBeNull();
  });

  it('find the last answer in one message or in several, or find that there is no answer', () => {
    const at = (...roles: string[]): number =>
      decode('messages', { messages: roles.map((role) => ({ role, content: role })) }).last_answer_at;
    expect(at('user')).toBe(-1);
    expect(at('user', 'assistant', 'user', 'user')).toBe(1);
    expect(at('user', 'assistant', 'user', 'assistant', 'assistant')).toBe(4);
    const listed = (calls: string[]) => ({
      input: [
        { role: 'user', content: 'Look.' },
        ...calls.map((id) => ({
          type: 'function_call',
          call_id: id,
          name: 'read_file',
          arguments: '{"path":"a"}',
        })),
        { type: 'function_call_output', call_id: calls[0], output: 'ok' },
      ],
    });
    const answer = { id: 'r', status: 'completed', output: listed(['call_1', 'call_2']).input.slice(1, 3) };
    const first = decode('responses', { input: 'Look.' }, answer);
    expect(decode('responses', listed(['call_1', 'call_2'])).last_answer_alone).toBe(first.answer_alone);
  });

  it('are equal for the same text as two messages or two blocks', () => {
    const split = prefixes({
      messages: [
        { role: 'user', content: 'a' },
        { role: 'user', content: 'b' },
      ],
    });
    const joined = prefixes({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
      ],
    });
    expect(split.at(-1)).toBe(joined.at(-1));
  });

  it.each([
    ['another message', { ...OPENING, messages: [{ role: 'user', content: 'Break it.' }] }],
    ['another role', { ...OPENING, messages: [{ role: 'assistant', content: 'Mend it.' }] }],
  ])('differ: %s', (_name, request) => {
    expect(prefixes(request)[0]).not.toBe(prefixes(OPENING)[0]);
  });

  it('do not depend on how a long text is divided into messages', () => {
    const text = Array.from({ length: 3_000 }, (_, i) => `${i} bottles`).join(', ');
    const say = (...texts: string[]) =>
      prefixes({ messages: texts.map((content) => ({ role: 'user', content })) }).at(-1);
    const whole = say(text);
    for (const at of [1, 8_000, 8_192, 8_193, 16_400, text.length - 1])
      expect(say(text.slice(0, at), text.slice(at))).toBe(whole);
    expect(say(`${text}.`)).not.toBe(whole);
    expect(say(`.${text.slice(1)}`)).not.toBe(whole);
  });

  it('differ for each of 20,000 messages of the same role', () => {
    const messages = Array.from({ length: 20_000 }, (_, i) => ({
      role: 'user',
      content: `${i} `.padEnd(500),
    }));
    expect(new Set(prefixes({ messages })).size).toBe(20_000);
  });

  it('distinguish runs that began alike by the ids of their tool calls', () => {
    const other = structuredClone(SECOND);
    (other.messages[1]!.content as { id?: string }[])[2]!.id = 'toolu_2';
    expect(prefixes(other)[1]).not.toBe(prefixes(SECOND)[1]);
  });

  it('of chat-completions ignore system messages at the start, and the layout of arguments', () => {
    const call = (args: string) => ({
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'k', type: 'function', function: { name: 'f', arguments: args } }],
    });
    const opening = [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ];
    const first = decode(
      'chat_completions',
      { messages: opening },
      { choices: [{ message: call('{"a":1,"b":2}'), finish_reason: 'tool_calls' }] },
    );
    const second = decode('chat_completions', {
      messages: [
        ...opening,
        call('{ "b": 2, "a": 1 }'),
        { role: 'tool', tool_call_id: 'k', content: 'done' },
      ],
    });
    expect(first.conversation).toHaveLength(1);
    expect(second.conversation).toHaveLength(3);
    expect(second.conversation[0]).toBe(first.conversation[0]);
    expect(second.conversation[1]).toBe(first.answered);
  });

  it('link responses by previous_response_id and by their echoed output', () => {
    const output = [
      { type: 'reasoning', id: 'rs_1', summary: [] },
      { type: 'function_call', id: 'fc_1', call_id: 'k', name: 'f', arguments: '{}', status: 'completed' },
    ];
    const first = decode('responses', { input: 'Hi' }, { id: 'resp_1', status: 'completed', output });
    const result = { type: 'function_call_output', call_id: 'k', output: 'ok' };
    const chained = decode('responses', { previous_response_id: 'resp_1', input: [result] });
    expect(chained.conversation[0]).toBe(first.answered_id);
    expect(chained.conversation).toHaveLength(2);
    const echoed = decode('responses', { input: [{ role: 'user', content: 'Hi' }, ...output, result] });
    expect(echoed.conversation[0]).toBe(first.conversation[0]);
    expect(echoed.conversation).toContain(first.answered);
  });

  it('ignore fields of a call with the default values of the schema, which clients fill in', () => {
    const properties = { path: { type: 'string' }, tries: { type: 'number', default: 1 } };
    const tools = [{ name: 'read', input_schema: { type: 'object', properties } }];
    const first = decode('messages', { ...OPENING, tools }, { ...ANSWER, content: [CALL] });
    const repeat = (tries: number) =>
      decode('messages', {
        ...OPENING,
        tools,
        messages: [
          ...OPENING.messages,
          { role: 'assistant', content: [{ ...CALL, input: { ...CALL.input, tries } }] },
          RESULT,
        ],
      });
    expect(repeat(1).conversation).toContain(first.answered);
    expect(repeat(2).conversation).not.toContain(first.answered);
  });

  it('do not contain the tools that items of the input declare', () => {
    const item = { type: 'additional_tools', role: 'developer', tools: [{ type: 'custom', name: 'exec' }] };
    const [words, rules] = [
      { role: 'user', content: 'Hi' },
      { role: 'developer', content: 'Be brief.' },
    ];
    const plain = decode('responses', { input: [rules, words] });
    expect(decode('responses', { input: [item, rules, words] }).conversation).toEqual(plain.conversation);
  });

  it('link messages by the provider’s thread, and name only answers that the provider stores', () => {
    const first = decode('messages', { ...OPENING, thread: { type: 'create' } }, { ...ANSWER, id: 'msg_1' });
    const thread = { type: 'continue', previous_message_id: 'msg_1' };
    const chained = decode('messages', { thread, messages: [{ role: 'user', content: 'on' }] });
    expect(chained.conversation[0]).toBe(first.answered_id);
    expect(chained.conversation).toHaveLength(2);
    expect(decode('messages', OPENING, { ...ANSWER, id: 'msg_1' }).answered_id).toBeNull();
  });

  it('record that the answer of a turn broke off, and that an embedding is not a turn', () => {
    const failed = decode('messages', OPENING, {
      type: 'error',
      error: { type: 'overloaded_error', message: 'x' },
    });
    expect([failed.broke_off, failed.is_turn]).toEqual([true, true]);
    expect(decode('messages', OPENING, ANSWER).broke_off).toBe(false);
    const invoke = (model: string, body: object, answer = {}): DecodedExchange =>
      decode('bedrock_invoke', body, answer, `/bedrock/eu-west-1/model/${model}/invoke`);
    const profile = 'arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Aapplication-inference-profile%2Fx';
    expect(invoke('amazon.titan-embed-text-v2%3A0', { inputText: 'a' }).is_turn).toBe(false);
    expect(invoke(profile, { inputText: 'a', dimensions: 256 }).is_turn).toBe(false);
    expect(invoke(profile, { inputText: 'a' }, { embedding: [1], inputTextTokenCount: 1 }).is_turn).toBe(
      false,
    );
    expect(invoke('amazon.titan-text-lite-v1', { inputText: 'a' }).is_turn).toBe(true);
  });

  it('are empty without a conversation', () => {
    expect(prefixes({ model: 'm' })).toEqual([]);
    expect(decode('responses', { input: '' }).conversation.length).toBeLessThan(2);
  });

  it.skipIf(!haveRecordings)('link the turns of recorded conversations (../shared/recordings)', () => {
    const tests = new Map<string, DecodedExchange[]>();
    for (const file of ['mirascope', 'pydantic-ai'] as const) {
      for (const { line, stored } of readRecordings(file)) {
        if (stored.shape === null || stored.status !== 200 || stored.shape === 'bedrock_invoke') continue;
        const entry = decodeExchange(stored);
        const key = line.source.slice(0, line.source.lastIndexOf('#'));
        tests.set(key, [...(tests.get(key) ?? []), entry]);
      }
    }
    let continued = 0;
    let byAnswer = 0;
    for (const turns of tests.values()) {
      for (let i = 1; i < turns.length; i += 1) {
        const now = turns[i]!;
        const earlier = turns.slice(0, i);
        if (now.conversation.length < 2) continue;
        const extended = earlier.filter((turn) => now.conversation.includes(turn.conversation.at(-1) ?? ''));
        if (extended.length === 0) continue;
        continued += 1;
        if (earlier.some((turn) => turn.answered !== null && now.conversation.includes(turn.answered)))
          byAnswer += 1;
      }
    }
    // The other recordings are hand-overs between providers, or belong to tests that rewrite the history.
    expect(continued).toBeGreaterThan(800);
    expect(byAnswer / continued).toBeGreaterThan(0.85);
  });
});
