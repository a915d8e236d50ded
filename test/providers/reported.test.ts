/**
 * Inputs from real traffic that were once read wrongly (../shared/reported), with the values that its README expects.
 * The numbers are the README's cases. The cases for masking, incoming telemetry, monitors, prices, zstd, the Python
 * client and integrations are in other folders.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { ExchangeRecord } from '../../src/domain/exchange.ts';
import type { NormalTurn, TurnBlock } from '../../src/domain/turn.ts';
import { TurnSpans } from '../../src/otel/turn-spans.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';
import type { StoredExchange } from '../../src/providers/stored-exchange.ts';
import { sharedFile } from '../fixtures/shared.ts';

const README = sharedFile('reported/README.md');
const folder = README.path.slice(0, -'README.md'.length);

/** The n-th exchange of a case, in the form of a captured one. */
function read(name: string, n = 0): StoredExchange {
  const body = (part: string) => readFileSync(`${folder}${name}.${n}.${part}`);
  const request = body('request');
  const response = body('response');
  const isStream = !/^\s*[{[]/.test(response.toString());
  const shape =
    name.startsWith('l') && !name.startsWith('l4')
      ? 'responses'
      : request.includes('claude')
        ? 'messages'
        : 'chat_completions';
  const path = {
    responses: '/v1/responses',
    messages: '/v1/messages',
    chat_completions: '/v1/chat/completions',
  };
  return {
    shape,
    path: path[shape],
    status: 200,
    request_headers: [],
    response_headers: ['content-type', isStream ? 'text/event-stream' : 'application/json'],
    request_body: request,
    response_body: response,
    truncated: false,
  };
}

const turn = (name: string, n = 0): NormalTurn => {
  const normal = normalizeTurn(read(name, n))!;
  expect(normal.problem).toBe('');
  return normal;
};
const calls = (blocks: readonly TurnBlock[]): [id: string, name: string, input: string][] =>
  blocks.flatMap((block): [string, string, string][] =>
    block.type === 'tool_call' ? [[block.id, block.name, JSON.stringify(block.input)]] : [],
  );
const count = (name: string): number =>
  readdirSync(folder).filter((file) => file.startsWith(`${name}.`) && file.endsWith('.request')).length;

const WEATHER: [string, string, string] = ['call_a1', 'get_weather', '{"city":"Oslo"}'];
const TIME: [string, string, string] = ['call_b2', 'get_time', '{"zone":"UTC"}'];

/** Calls of the first answer, which the second request repeats. */
const CALLS: [name: string, calls: [string, string, string][]][] = [
  ['a1-same-index-own-chunks', [WEATHER, TIME]],
  ['a1u-same-index-unlabelled', [WEATHER, TIME]],
  ['a2-no-index-one-delta', [WEATHER, TIME]],
  ['a3-no-index-own-chunks', [WEATHER, TIME]],
  ['a4-same-index-fragments', [WEATHER, TIME]],
  ['a5-control-interleaved', [WEATHER, TIME]],
  ['a6-null-index', [WEATHER, TIME]],
  ['a8-arguments-object', [WEATHER]],
  ['b2-control-name-in-pieces', [WEATHER]],
  ['b3-empty-name-later', [WEATHER]],
  ['h1-big-integers-chat', [['call_big', 'lookup', '{"id":2512292042121000001,"price":0.1}']]],
  [
    'l1-responses-parallel',
    [
      ['call_p1', 'get_weather', '{"city":"Oslo"}'],
      ['call_p2', 'get_time', '{"zone":"UTC"}'],
      ['call_p3', 'get_news', '{"topic":"x"}'],
    ],
  ],
  ['l4-control-chat-parallel', [WEATHER, TIME]],
];

const thinking = (text: string): object => ({ type: 'thinking', text, signature: null, redacted: false });
const text = (said: string): object => ({ type: 'text', text: said });

/** Tokens: input without caches, output, cache reads, cache writes, and one-hour cache writes. */
const USAGE: [name: string, usage: (number | null)[]][] = [
  ['d1-x-groq-usage', [100, 20, null, null, null]],
  ['d3-xai-reasoning-apart-stream', [800, 430, 200, null, null]],
  ['d3b-xai-reasoning-apart-whole', [800, 430, 200, null, null]],
  ['d3c-control-openai-reasoning-within', [800, 430, 200, null, null]],
  ['d4-deepseek-cache-hit', [100, 20, 900, null, null]],
  ['d6-control-usage-with-choices', [1, 251, 64, null, null]],
  ['d6b-control-usage-each-chunk', [65, 4, null, null, null]],
  ['d8-litellm-anthropic-caches', [100, 20, 700, 200, null]],
  ['e1-compaction-iterations-stream', [203_000, 4_500, 0, 0, null]],
  ['e1b-compaction-iterations-whole', [203_000, 4_500, 0, 0, null]],
  ['e2-one-hour-cache', [10, 100, 0, 1_000_000, 1_000_000]],
  ['e3-delta-zero-overrides', [15_000, 42, 7_000, 300, null]],
  ['e4-control-start-zero', [123, 45, null, null, null]],
  ['e4b-control-not-doubled', [317, 16, 50, 4_425, null]],
];

describe.skipIf(!README.is_there)('reported inputs (../shared/reported)', () => {
  it.each(CALLS)('calls of %s are read', (name, wanted) => {
    const first = turn(name);
    expect(calls(first.answer.content)).toEqual(wanted);
    expect(first.answer.stop_reason).toBe('tool_use');
    const { messages } = turn(name, 1).request;
    expect(messages.flatMap(({ content }) => calls(content))).toEqual(wanted);
    const results = messages.flatMap(({ content }) => content.filter(({ type }) => type === 'tool_result'));
    expect(results).toMatchObject(wanted.map(([call_id, tool]) => ({ call_id, name: tool })));
  });

  it.each(CALLS)('the second request of %s continues from the first answer', (name) => {
    const { answered, answer_alone } = decodeExchange(read(name));
    const second = decodeExchange(read(name, 1));
    expect(answered).not.toBeNull();
    expect(second.conversation).toContain(answered);
    expect(second.last_answer_alone).toBe(answer_alone);
  });

  it('object arguments of a whole answer (8b), and 19 digits of a Messages stream (1c), are read', () => {
    expect(calls(turn('a8b-control-arguments-object-whole').answer.content)).toMatchObject([
      [expect.any(String), 'get_weather', '{"city":"Oslo"}'],
    ]);
    expect(calls(turn('h2-big-integers-messages').answer.content)).toEqual([
      ['toolu_big', 'lookup', '{"id":2512292042121000001}'],
    ]);
  });

  it('lists as content are read (5)', () => {
    const content = (name: string) => turn(name).answer.content;
    expect(content('c1-list-content-stream')).toEqual([
      thinking('They want a greeting.'),
      text('Hello there, friend of mine.'),
    ]);
    for (const name of ['c2-list-then-string', 'c3-list-content-whole'])
      expect(content(name)).toEqual([thinking('They want a greeting.'), text('Hello there.')]);
  });

  it.each(USAGE)('usage of %s is read', (name, [input, output, reads, writes, hour]) => {
    expect(turn(name).answer.usage).toMatchObject({
      input_tokens: input,
      output_tokens: output,
      cache_read_tokens: reads,
      cache_write_tokens: writes,
    });
    if (hour !== null) expect(turn(name).answer.usage.cache_write_1h_tokens).toBe(hour);
  });

  it.each(['f1-compaction-stream', 'f2-control-compaction-whole', 'f3-compaction-stream-session'])(
    'the compaction block of %s equals its echo (14)',
    (name) => {
      const [first, second] = [decodeExchange(read(name)), decodeExchange(read(name, 1))];
      expect(second.conversation).toContain(first.answered);
      expect(turn(name).answer.content[0]).toMatchObject({
        type: 'other',
        name: 'compaction',
        value: { content: expect.stringContaining('Three tests fail') },
      });
    },
  );

  it('results belong to their calls even if all calls of a conversation have the same id (16)', () => {
    const last = turn('i1-constant-tool-id', count('i1-constant-tool-id') - 1);
    const results = last.request.messages.flatMap(({ content }) =>
      content.flatMap((block) => (block.type === 'tool_result' ? [block.name] : [])),
    );
    expect(results).toEqual(['list_dir', 'read_file', 'run_tests']);
  });

  it.each(['l1-responses-parallel', 'l4-control-chat-parallel'])('tool spans of %s are read (18)', (name) => {
    const spans = new TurnSpans({ instance: 'i', has_content: true, servers: [] });
    const record = (id: number): ExchangeRecord =>
      ({
        id,
        run_id: 'r',
        status: 200,
        provider: 'openai',
        path: '/',
        note: '',
        started_at: new Date(id * 1_000).toISOString(),
        duration_ms: 1,
        usage: {},
        shape: read(name).shape,
        request: { headers: [] },
        response: { headers: [] },
      }) as unknown as ExchangeRecord;
    const first = turn(name);
    spans.make(record(1), first);
    const made = spans.make(record(2), turn(name, 1)).map((span) => span.name);
    expect(made.slice(0, -1)).toEqual(calls(first.answer.content).map(([, tool]) => `execute_tool ${tool}`));
    // The same request without the first answer, as after a restart.
    const later = new TurnSpans({ instance: 'i', has_content: true, servers: [] });
    later.remember(record(1), []);
    expect(later.make(record(2), turn(name, 1)).map((span) => span.name)).toEqual(made);
  });

  it('interleaved items of a responses stream are read', () => {
    expect(calls(turn('l5-responses-stream-interleaved').answer.content)).toEqual([
      ['call_p1', 'get_weather', '{"city":"Oslo"}'],
      ['call_p2', 'get_time', '{"zone":"UTC"}'],
    ]);
  });

  it('a background answer has not failed, and its content is unknown (31)', () => {
    const asked = decodeExchange(read('l6-responses-background'));
    expect(asked).toMatchObject({ stop_reason: 'queued', undecodable: true, broke_off: false });
    expect(asked.reason).toContain('in the background');
    expect(asked.usage.output_tokens).toBeNull();
    const next = { model: 'm-test', input: 'And then?', previous_response_id: 'resp_bg' };
    const goesOn = decodeExchange({
      ...read('l6-responses-background'),
      request_body: Buffer.from(JSON.stringify(next)),
    });
    expect(goesOn.conversation[0]).toBe(asked.answered_id);
  });

  it('errors within a 200 are read as failures (29)', () => {
    for (const [name, words] of [
      ['p2-error-chunk-empty-choices', 'Worker limit'],
      ['p3-anthropic-error-event', 'overloaded_error: Overloaded'],
    ] as const) {
      expect(turn(name).answer.error).toBe(words);
      expect(decodeExchange(read(name))).toMatchObject({
        stop_reason: null,
        broke_off: true,
        undecodable: false,
      });
    }
  });

  it('streams of unusual forms are read', () => {
    const said = (name: string) =>
      turn(name).answer.content.map((block) => (block.type === 'text' ? block.text : block.type));
    expect(said('x1-split-utf8')[0]).toMatch(/^北京/);
    for (const name of ['x2-crlf', 'x3-cr-only-no-space-bom', 'x5-blank-data-keepalives'])
      expect(said(name).join('')).toMatch(/^Hello/);
    expect(said('x4-lone-surrogates')).toEqual(['half 😀 whole']);
  });
});
