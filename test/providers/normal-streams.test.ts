/**
 * Every provider's streams compared with its whole answers: the fake provider gives the same answer both ways. Needs no
 * recordings.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { NormalTurn } from '../../src/domain/turn.ts';
import { classifyRequest } from '../../src/providers/classify.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';

let provider: FakeProvider;
beforeAll(async () => {
  provider = await startFakeProvider({
    script: () => ({
      thinking: 'It is in the parser; ünïcode too.',
      text: 'I look at two files.',
      tool_calls: [
        { name: 'read_file', input: { path: 'a.ts', lines: [1, 2] } },
        { name: 'list', input: {} },
      ],
      usage: { input: 40, output: 12, cache_read: 8, cache_write: 4 },
    }),
  });
});
afterAll(() => provider.close());

async function ask(path: string, body: object): Promise<NormalTurn> {
  const request = Buffer.from(JSON.stringify(body));
  const response = await fetch(provider.url + path, {
    method: 'POST',
    headers: {
      authorization: 'Bearer none',
      'x-api-key': 'none',
      'x-goog-api-key': 'none',
      'accept-encoding': 'identity',
    },
    body: request,
  });
  const cut = path.indexOf('?');
  const own = cut < 0 ? path : path.slice(0, cut);
  const { kind, shape } = classifyRequest(own.startsWith('/model/') ? 'bedrock' : 'default', 'POST', own);
  expect(kind).toBe('turn');
  return normalizeTurn({
    shape,
    path: own,
    status: response.status,
    request_headers: [],
    response_headers: [...response.headers].flat(),
    request_body: request,
    response_body: new Uint8Array(await response.arrayBuffer()),
    truncated: false,
  })!;
}

const chat = { model: 'm', messages: [{ role: 'user', content: 'Go.' }] };
const converse = { messages: [{ role: 'user', content: [{ text: 'Go.' }] }] };
const invoke = { ...chat, model: undefined, anthropic_version: 'bedrock-2023-05-31', max_tokens: 9 };
const gemini = { contents: [{ role: 'user', parts: [{ text: 'Go.' }] }] };
const withUsage = { ...chat, stream_options: { include_usage: true } };

describe('a stream in normal form is the whole answer in normal form', () => {
  const cases: [name: string, whole: [string, object], stream: [string, object]][] = [
    [
      'messages',
      ['/v1/messages', { ...chat, max_tokens: 9 }],
      ['/v1/messages', { ...chat, max_tokens: 9, stream: true }],
    ],
    ['chat', ['/v1/chat/completions', withUsage], ['/v1/chat/completions', { ...withUsage, stream: true }]],
    [
      'responses',
      ['/v1/responses', { model: 'm', input: 'Go.' }],
      ['/v1/responses', { model: 'm', input: 'Go.', stream: true }],
    ],
    [
      'Gemini (events)',
      ['/v1beta/models/gemini-x:generateContent', gemini],
      ['/v1beta/models/gemini-x:streamGenerateContent?alt=sse', gemini],
    ],
    [
      'Gemini (a JSON array)',
      ['/v1beta/models/gemini-x:generateContent', gemini],
      ['/v1beta/models/gemini-x:streamGenerateContent', gemini],
    ],
    ['Converse', ['/model/m.x-1/converse', converse], ['/model/m.x-1/converse-stream', converse]],
    ['InvokeModel', ['/model/m.x-1/invoke', invoke], ['/model/m.x-1/invoke-with-response-stream', invoke]],
  ];

  it.each(cases)('%s', async (_name, [wholePath, wholeBody], [streamPath, streamBody]) => {
    const whole = await ask(wholePath, wholeBody);
    const stream = await ask(streamPath, streamBody);
    expect(whole.problem).toBe('');
    expect(stream.problem).toBe('');
    expect(whole.answer.error).toBeNull();
    // In these formats, ids and signatures depend on the bytes of the request, which differ.
    const content = (turn: NormalTurn) =>
      turn.answer.content.map((block) => {
        if (block.type === 'tool_call')
          return { ...block, id: block.id.startsWith('order:') ? block.id : 'given' };
        if (block.type === 'thinking') return { ...block, signature: typeof block.signature };
        return block;
      });
    expect(content(stream)).toEqual(content(whole));
    expect(stream.answer.stop_reason).toBe('tool_use');
    expect(whole.answer.stop_reason).toBe('tool_use');
    expect(stream.answer.usage).toEqual(whole.answer.usage);
    expect(whole.answer.content.filter(({ type }) => type === 'text')).toEqual([
      { type: 'text', text: 'I look at two files.' },
    ]);
    expect(
      whole.answer.content.flatMap((block) => (block.type === 'tool_call' ? [block.input] : [])),
    ).toEqual([{ path: 'a.ts', lines: [1, 2] }, {}]);
    expect(stream.request).toEqual(whole.request);
    expect(stream.request.messages).toEqual([{ role: 'user', content: [{ type: 'text', text: 'Go.' }] }]);
    expect(stream.request.model).not.toBeNull();
  });
});
