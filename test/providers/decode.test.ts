/** The decoders on made-up bodies: encodings, framings, damage, and the meaning of each wire format's numbers. */
import zlib from 'node:zlib';
import { EventStreamCodec } from '@smithy/core/event-streams';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ApiShape } from '../../src/domain/exchange.ts';
import { decodeContent } from '../../src/providers/content-encoding.ts';
import { decodeExchange, type StoredExchange } from '../../src/providers/decode.ts';
import { readTurn } from '../../src/providers/normal-turn.ts';
import { WIRES } from '../../src/providers/wires.ts';
import { drawsOf } from '../long-parts.ts';
import { haveRecordings, readRecordings } from './recordings.ts';

const utf8 = new TextEncoder();
const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : new TextDecoder().decode(bytes)),
  (text) => utf8.encode(text),
);

function stored(shape: ApiShape | null, change: Partial<StoredExchange> = {}): StoredExchange {
  return {
    shape,
    path: '/v1/messages',
    status: 200,
    request_headers: [],
    response_headers: ['Content-Type', 'application/json'],
    request_body: utf8.encode('{"model":"asked"}'),
    response_body: utf8.encode('{}'),
    truncated: false,
    ...change,
  };
}

const json = (value: unknown): Uint8Array => utf8.encode(JSON.stringify(value));
const sse = (...events: unknown[]): Uint8Array =>
  utf8.encode(
    events.map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`).join(''),
  );

function eventStream(...messages: [headers: Record<string, string>, body: unknown][]): Buffer {
  return Buffer.concat(
    messages.map(([headers, body]) =>
      codec.encode({
        headers: Object.fromEntries(
          Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }]),
        ),
        body: json(body),
      }),
    ),
  );
}

const ANSWER = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'answered',
  content: [{ type: 'text', text: 'grüß dich' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 7, output_tokens: 3, cache_read_input_tokens: 5, cache_creation_input_tokens: 2 },
};

const MESSAGES_STREAM = sse(
  { type: 'message_start', message: { ...ANSWER, content: [], stop_reason: null } },
  { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'hm' } },
  { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'one ' } },
  { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'two' } },
  {
    type: 'content_block_start',
    index: 2,
    content_block: { type: 'tool_use', id: 't1', name: 'look', input: {} },
  },
  { type: 'content_block_delta', index: 2, delta: { type: 'input_json_delta', partial_json: '{"at":' } },
  { type: 'content_block_delta', index: 2, delta: { type: 'input_json_delta', partial_json: '"x"}' } },
  { type: 'ping' },
  { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 41 } },
  { type: 'message_stop' },
);

describe('decodeContent', () => {
  const plain = utf8.encode(JSON.stringify({ text: 'x'.repeat(5000) }));
  const codings: [string, (bytes: Uint8Array) => Uint8Array][] = [
    ['gzip', zlib.gzipSync],
    ['x-gzip', zlib.gzipSync],
    ['deflate', zlib.deflateSync],
    ['deflate', zlib.deflateRawSync],
    ['br', zlib.brotliCompressSync],
    ['zstd', zlib.zstdCompressSync],
    ['identity', (bytes) => bytes],
  ];

  it.each(codings)('decodes %s', (coding, encode) => {
    const decoded = decodeContent(encode(plain), ['Content-Encoding', coding.toUpperCase()]);
    expect(decoded.problem).toBe('');
    expect(Buffer.from(decoded.bytes)).toEqual(Buffer.from(plain));
  });

  it.each(codings)('accepts a body that was stored decoded although its header says %s', (coding) => {
    const decoded = decodeContent(plain, ['content-encoding', coding]);
    expect(decoded).toEqual({ bytes: plain, problem: '' });
  });

  it('decodes stacked codings in reverse order, and gzip without a header', () => {
    const both = zlib.brotliCompressSync(zlib.gzipSync(plain));
    expect(Buffer.from(decodeContent(both, ['content-encoding', 'gzip, br']).bytes)).toEqual(
      Buffer.from(plain),
    );
    expect(Buffer.from(decodeContent(zlib.gzipSync(plain), []).bytes)).toEqual(Buffer.from(plain));
  });

  it.each(codings.slice(0, 5))('flags a %s body that is cut off', (coding, encode) => {
    const noise = Buffer.from(Array.from({ length: 4000 }, (_, i) => (i * 7919) % 251));
    const whole = encode(noise);
    const decoded = decodeContent(whole.subarray(0, whole.byteLength - 9), ['content-encoding', coding]);
    expect(decoded.problem).toMatch(/ends early|damaged/);
  });

  it('returns the beginning of a zstd body that is cut off, with a flag, unlike node:zlib', () => {
    const whole = zlib.zstdCompressSync(plain);
    const first = zlib.zstdCompressSync('first');
    for (const [body, begin] of [
      [whole.subarray(0, -3), ''],
      [Buffer.concat([first, whole.subarray(0, -3)]), 'first'],
    ] as const) {
      const decoded = decodeContent(body, ['content-encoding', 'zstd']);
      const text = `${begin}${Buffer.from(plain)}`;
      expect(decoded.problem).toBe('the zstd body ends early');
      expect(text.startsWith(Buffer.from(decoded.bytes).toString())).toBe(true);
      expect(decoded.bytes.byteLength).toBeGreaterThanOrEqual(begin.length);
    }
  });

  it('reads all frames of zstd, skipping the skippable ones, and all members of gzip', () => {
    // A header of eight bytes, little-endian (0x184d2a53, 3), and three bytes.
    const skipped = Buffer.from('532a4d1803000000616263', 'hex');
    const parts = [Buffer.from(plain).subarray(0, 999), Buffer.from(plain).subarray(999)];
    const frames = parts.map((part) => zlib.zstdCompressSync(part));
    const members = Buffer.concat(parts.map((part) => zlib.gzipSync(part)));
    const zstd = Buffer.concat([skipped, frames[0]!, skipped, frames[1]!, skipped]);
    for (const [body, coding] of [
      [zstd, 'zstd'],
      [zstd, ''],
      [members, 'gzip'],
      [members, ''],
    ] as const) {
      const decoded = decodeContent(body, ['content-encoding', coding]);
      expect(decoded.problem).toBe('');
      expect(Buffer.from(decoded.bytes)).toEqual(Buffer.from(plain));
    }
  });

  it.each(codings.slice(0, 6))('flags bytes after a %s body', (coding, encode) => {
    const body = Buffer.concat([encode(plain), Buffer.from('\x01 and more')]);
    const decoded = decodeContent(body, ['content-encoding', coding]);
    expect(decoded.problem).toMatch(/ends early|other bytes|damaged/);
  });

  it('refuses a body that decodes to more bytes than the bound', () => {
    const bomb = zlib.gzipSync(Buffer.alloc(2_000_000));
    expect(decodeContent(bomb, ['content-encoding', 'gzip'], 1_000_000)).toEqual({
      bytes: new Uint8Array(0),
      problem: 'decodes to more than 1000000 bytes',
    });
  });

  it('names an unknown coding', () => {
    const decoded = decodeContent(Buffer.from([0, 1, 2]), ['content-encoding', 'rot13']);
    expect(decoded.problem).toBe('unknown content coding "rot13"');
  });
});

describe('decodeExchange', () => {
  it('reads a whole Messages answer', () => {
    expect(decodeExchange(stored('messages', { response_body: json(ANSWER) }))).toMatchObject({
      model: 'answered',
      stop_reason: 'end_turn',
      usage: { input_tokens: 7, output_tokens: 3, cache_read_tokens: 5, cache_write_tokens: 2 },
      undecodable: false,
      reason: '',
    });
  });

  it('reads a Messages stream, gzipped and without a useful content type', () => {
    const change = { response_body: zlib.gzipSync(MESSAGES_STREAM), response_headers: [] };
    const turn = readTurn(stored('messages', change))!;
    expect(turn.problem).toBe('');
    expect(turn.answer).toMatchObject({
      stop_reason: 'tool_use',
      usage: { input_tokens: 7, output_tokens: 41, cache_read_tokens: 5, cache_write_tokens: 2 },
      content: [
        { type: 'thinking', text: 'hm' },
        { type: 'text', text: 'one two' },
        { type: 'tool_call', id: 't1', name: 'look', input: { at: 'x' } },
      ],
    });
  });

  it('reads the part of a stream that ended early, and does not flag it as undecodable', () => {
    const cut = MESSAGES_STREAM.subarray(
      0,
      Buffer.from(MESSAGES_STREAM).indexOf('data: {"type":"message_delta"'),
    );
    const entry = decodeExchange(stored('messages', { response_body: cut }));
    expect(entry).toMatchObject({ undecodable: false, stop_reason: null, model: 'answered', answered: null });
    const inside = decodeExchange(stored('messages', { response_body: cut.subarray(0, -5) }));
    expect(inside).toMatchObject({ undecodable: true, model: 'answered' });
    expect(inside.reason).toMatch(/^answer: event \d+ is not JSON$/);
  });

  it('separates an error event of a stream from its answer', () => {
    const body = sse({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } });
    const turn = readTurn(stored('messages', { response_body: body }))!;
    expect(turn.answer.error).toBe('overloaded_error: Overloaded');
    expect(turn.problem).toBe('');
  });

  it('returns null as usage, and no flag, for an error answer in JSON or in text', () => {
    const error = { type: 'error', error: { type: 'rate_limit_error', message: 'slow down' } };
    const asJson = stored('messages', { status: 429, response_body: json(error) });
    expect(decodeExchange(asJson)).toMatchObject({
      model: 'asked',
      stop_reason: null,
      usage: { input_tokens: null, output_tokens: null, cache_read_tokens: null, cache_write_tokens: null },
      undecodable: false,
    });
    expect(readTurn(asJson)!.answer.error).toBe('rate_limit_error: slow down');
    const asHtml = stored('messages', { status: 502, response_body: utf8.encode('<h1>Bad gateway</h1>') });
    expect(readTurn(asHtml)).toMatchObject({ problem: '', answer: { error: '<h1>Bad gateway</h1>' } });
    const noAnswer = stored('messages', { status: 0, response_body: new Uint8Array(0) });
    expect(readTurn(noAnswer)).toMatchObject({ problem: '', answer: { error: null } });
  });

  it.each([
    ['answer not JSON', { response_body: utf8.encode('{"a":') }, /^answer: not JSON/],
    ['request not JSON', { request_body: utf8.encode('nope') }, /^request: not JSON/],
    ['request empty', { request_body: new Uint8Array(0) }, /^request: empty/],
    ['cut off', { truncated: true, response_body: json(ANSWER) }, /^the stored copy is truncated$/],
    [
      'no event',
      { response_headers: ['content-type', 'text/event-stream'], response_body: utf8.encode('x') },
      /without one/,
    ],
  ])('flags: %s', (_name, change, reason) => {
    const entry = decodeExchange(stored('messages', change));
    expect(entry.undecodable).toBe(true);
    expect(entry.reason).toMatch(reason);
  });

  it('returns nothing for an exchange without a wire format', () => {
    expect(decodeExchange(stored(null, { response_body: utf8.encode('nope') }))).toMatchObject({
      model: null,
      undecodable: false,
      conversation: [],
    });
  });

  it('reads streamed chat completions with usage in a last chunk without choices', () => {
    const chunk = (delta: unknown, finish: string | null = null) => ({
      id: 'c1',
      model: 'gpt',
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
    const body = sse(
      chunk({ role: 'assistant', content: 'a' }),
      { ...chunk({ content: 'not this one' }), choices: [{ index: 1, delta: { content: 'no' } }] },
      chunk({ tool_calls: [{ index: 0, id: 'k', function: { name: 'f', input: '{"x"' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }, 'tool_calls'),
      {
        choices: [],
        usage: { prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 6 } },
      },
      '[DONE]',
    );
    const turn = readTurn(stored('chat_completions', { response_body: body }))!;
    expect(turn).toMatchObject({ stop_word: 'tool_calls', told_usage: { input_tokens: 9 } });
    expect(turn.answer).toMatchObject({
      model: 'gpt',
      stop_reason: 'tool_use',
      usage: { input_tokens: 3, output_tokens: 4, cache_read_tokens: 6, cache_write_tokens: null },
      content: [
        { type: 'text', text: 'a' },
        { type: 'tool_call', id: 'k', name: 'f', input: { x: 1 } },
      ],
    });
  });

  it('estimates an image in a request as an image, however many bytes it has', () => {
    const inputOf = (image: string): number | null => {
      const content = [
        { type: 'text', text: 'what is this?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } },
      ];
      const entry = decodeExchange(
        stored('chat_completions', {
          request_body: json({ model: 'm', stream: true, messages: [{ role: 'user', content }] }),
          response_headers: ['Content-Type', 'text/event-stream'],
          response_body: sse({ choices: [{ index: 0, delta: { content: 'a cat' }, finish_reason: 'stop' }] }),
        }),
      );
      expect(entry.usage.estimated).toBe(true);
      return entry.usage.input_tokens;
    };
    const small = inputOf('AAAA');
    expect(small).toBeGreaterThan(1_000);
    expect(small).toBeLessThan(1_100);
    expect(inputOf('A'.repeat(400_000))).toBe(small);
  });

  it('reads a responses stream cut off before its last event', () => {
    const body = sse(
      { type: 'response.created', response: { id: 'resp_1', model: 'gpt', status: 'in_progress' } },
      {
        type: 'response.output_item.added',
        output_index: 0,
        item: { type: 'message', role: 'assistant', content: [] },
      },
      { type: 'response.output_text.delta', output_index: 0, delta: 'half an ' },
      { type: 'response.output_text.delta', output_index: 0, delta: 'answer' },
    );
    const turn = readTurn(stored('responses', { response_body: body }))!;
    expect(turn).toMatchObject({
      problem: '',
      answer: { id: 'resp_1', stop_reason: null, content: [{ type: 'text', text: 'half an answer' }] },
    });
  });

  it('reads completion answers of both providers', () => {
    const openai = stored('completion', {
      response_body: json({
        model: 'm',
        choices: [{ text: 'ok', finish_reason: 'stop' }],
        usage: { prompt_tokens: 1, completion_tokens: 2 },
      }),
    });
    expect(decodeExchange(openai)).toMatchObject({
      stop_reason: 'stop',
      usage: { input_tokens: 1, output_tokens: 2 },
    });
    const anthropic = stored('completion', {
      request_body: json({ model: 'm', prompt: '\n\nHuman: hi\n\nAssistant:' }),
      response_body: sse(
        { type: 'completion', completion: 'he', stop_reason: null, model: 'claude' },
        { type: 'completion', completion: 'llo', stop_reason: 'stop_sequence', model: 'claude' },
      ),
    });
    expect(readTurn(anthropic)).toMatchObject({
      answer: { model: 'claude', stop_reason: 'stop_sequence', content: [{ text: 'hello' }] },
      request: { messages: [{ role: 'user' }] },
    });
  });

  it.each(['array', 'sse'])('reads a Gemini stream as %s, with the model from the path', (form) => {
    const chunks = [
      {
        candidates: [{ content: { parts: [{ text: 'why', thought: true }] } }],
        modelVersion: 'gemini-x-001',
      },
      { candidates: [{ content: { parts: [{ text: 'be' }] } }] },
      {
        candidates: [
          {
            content: { parts: [{ text: 'cause' }, { functionCall: { name: 'f', args: { a: 1 } } }] },
            finishReason: 'STOP',
          },
        ],
        usageMetadata: {
          promptTokenCount: 10,
          candidatesTokenCount: 4,
          thoughtsTokenCount: 3,
          cachedContentTokenCount: 8,
          totalTokenCount: 17,
        },
      },
    ];
    const turn = readTurn(
      stored('gemini', {
        path: '/gemini/v1beta/models/gemini-x%2Btuned:streamGenerateContent',
        response_body: form === 'array' ? utf8.encode(JSON.stringify(chunks, null, 1)) : sse(...chunks),
        response_headers: ['content-type', form === 'array' ? 'application/json' : 'text/event-stream'],
      }),
    )!;
    expect(turn).toMatchObject({ stop_word: 'STOP', told_usage: { input_tokens: 10 } });
    expect(turn.answer).toMatchObject({
      model: 'gemini-x+tuned',
      stop_reason: 'tool_use',
      usage: { input_tokens: 2, output_tokens: 7, cache_read_tokens: 8, cache_write_tokens: null },
      content: [
        { type: 'thinking', text: 'why' },
        { type: 'text', text: 'because' },
        { type: 'tool_call', id: 'order:1', name: 'f', input: { a: 1 } },
      ],
    });
  });

  const converse = eventStream(
    [{ ':message-type': 'event', ':event-type': 'messageStart' }, { role: 'assistant' }],
    [
      { ':message-type': 'event', ':event-type': 'contentBlockDelta' },
      { contentBlockIndex: 0, delta: { text: 'so' } },
    ],
    [
      { ':message-type': 'event', ':event-type': 'contentBlockStart' },
      { contentBlockIndex: 1, start: { toolUse: { toolUseId: 'u', name: 'f' } } },
    ],
    [
      { ':message-type': 'event', ':event-type': 'contentBlockDelta' },
      { contentBlockIndex: 1, delta: { toolUse: { input: '{"y":2}' } } },
    ],
    [{ ':message-type': 'event', ':event-type': 'messageStop' }, { stopReason: 'tool_use' }],
    [
      { ':message-type': 'event', ':event-type': 'metadata' },
      { usage: { inputTokens: 5, outputTokens: 6, cacheReadInputTokens: 7, cacheWriteInputTokens: 8 } },
    ],
  );
  const bedrock = {
    path: '/bedrock/eu-central-1/model/eu.anthropic.claude-x-v1%3A0/converse-stream',
    response_headers: ['content-type', 'application/vnd.amazon.eventstream'],
  };

  it('reads a ConverseStream answer', () => {
    const turn = readTurn(stored('bedrock_converse', { ...bedrock, response_body: converse }))!;
    expect(turn.problem).toBe('');
    expect(turn.answer).toMatchObject({
      model: 'eu.anthropic.claude-x-v1:0',
      stop_reason: 'tool_use',
      usage: { input_tokens: 5, output_tokens: 6, cache_read_tokens: 7, cache_write_tokens: 8 },
      content: [
        { type: 'text', text: 'so' },
        { type: 'tool_call', id: 'u', name: 'f', input: { y: 2 } },
      ],
    });
  });

  it('flags an event stream with any flipped bit, or with a cut inside a message', () => {
    for (let bit = 0; bit < converse.byteLength * 8; bit += 1) {
      const damaged = Buffer.from(converse);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      expect(
        decodeExchange(stored('bedrock_converse', { ...bedrock, response_body: damaged })).undecodable,
      ).toBe(true);
    }
    let whole = 0;
    for (let end = 1; end < converse.byteLength; end += 1) {
      const entry = decodeExchange(
        stored('bedrock_converse', { ...bedrock, response_body: converse.subarray(0, end) }),
      );
      if (!entry.undecodable) whole += 1;
    }
    expect(whole).toBe(5);
  });

  it('reads an exception in an event stream as the error', () => {
    const body = eventStream([
      { ':message-type': 'exception', ':exception-type': 'throttlingException' },
      { message: 'Too many tokens' },
    ]);
    const turn = readTurn(stored('bedrock_converse', { ...bedrock, response_body: body }))!;
    expect(turn.answer.error).toBe('throttlingException: Too many tokens');
  });

  it('reads InvokeModel with a Messages body, and takes the usage from the body if it has one, otherwise from the headers', () => {
    const path = '/bedrock/us-east-1/model/anthropic.claude-x/invoke';
    const request = json({
      anthropic_version: 'bedrock-2023-05-31',
      messages: [{ role: 'user', content: 'hi' }],
    });
    const headers = [
      'X-Amzn-Bedrock-Input-Token-Count',
      '99',
      'x-amzn-bedrock-cache-read-input-token-count',
      '3',
    ];
    const { cache_read_input_tokens: _left, ...usage } = ANSWER.usage;
    const entry = decodeExchange(
      stored('bedrock_invoke', {
        path,
        request_body: request,
        response_body: json({ ...ANSWER, usage }),
        response_headers: headers,
      }),
    );
    expect(entry).toMatchObject({
      model: 'anthropic.claude-x',
      stop_reason: 'end_turn',
      usage: { input_tokens: 7, output_tokens: 3, cache_read_tokens: 3, cache_write_tokens: 2 },
    });
    expect(entry.conversation).toHaveLength(1);
    const embedding = stored('bedrock_invoke', {
      path: '/model/some.embedder/invoke',
      response_body: json({ embeddings: [[1]] }),
      response_headers: headers,
    });
    expect(decodeExchange(embedding)).toMatchObject({ undecodable: false, usage: { input_tokens: 99 } });
  });

  it('reads InvokeModelWithResponseStream of Messages, Nova and plain-text models', () => {
    const chunks = (...values: unknown[]): Buffer =>
      eventStream(
        ...values.map((value): [Record<string, string>, unknown] => [
          { ':message-type': 'event', ':event-type': 'chunk' },
          { bytes: Buffer.from(JSON.stringify(value)).toString('base64') },
        ]),
      );
    const metrics = { 'amazon-bedrock-invocationMetrics': { inputTokenCount: 11, outputTokenCount: 12 } };
    const read = (body: Buffer) => readTurn(stored('bedrock_invoke', { ...bedrock, response_body: body }))!;
    expect(
      read(
        chunks(
          { type: 'message_start', message: { ...ANSWER, content: [], stop_reason: null } },
          { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'yes' } },
          { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
          { type: 'message_stop', ...metrics },
        ),
      ),
    ).toMatchObject({
      problem: '',
      answer: {
        stop_reason: 'end_turn',
        usage: { input_tokens: 7, output_tokens: 2 },
        content: [{ text: 'yes' }],
      },
    });
    expect(
      read(
        chunks(
          { messageStart: { role: 'assistant' } },
          { contentBlockDelta: { contentBlockIndex: 0, delta: { text: 'yes' } } },
          { messageStop: { stopReason: 'end_turn' } },
          { metadata: { usage: { inputTokens: 1, outputTokens: 2 } }, ...metrics },
        ),
      ),
    ).toMatchObject({
      answer: {
        stop_reason: 'end_turn',
        usage: { input_tokens: 1, output_tokens: 2 },
        content: [{ text: 'yes' }],
      },
    });
    expect(
      read(chunks({ generation: 'ye' }, { generation: 's', stop_reason: 'stop', ...metrics })),
    ).toMatchObject({
      answer: {
        stop_reason: 'end_turn',
        usage: { input_tokens: 11, output_tokens: 12 },
        content: [{ text: 'yes' }],
      },
    });
  });

  it('flags JSON that is nested 200,000 levels deep', () => {
    const deep = `{"messages":[{"role":"user","content":[{"type":"tool_use","input":${'['.repeat(200_000)}${']'.repeat(200_000)}}]}]}`;
    expect(decodeExchange(stored('messages', { request_body: utf8.encode(deep) })).undecodable).toBe(true);
  });
});

const SHAPES = Object.keys(WIRES) as ApiShape[];

describe('decodeExchange never throws', () => {
  it('for any JSON in any wire format, whole or as events', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...SHAPES),
        fc.jsonValue(),
        fc.array(fc.jsonValue()),
        (shape, value, events) => {
          decodeExchange(stored(shape, { request_body: json(value), response_body: json(value) }));
          decodeExchange(stored(shape, { response_body: sse(...events) }));
        },
      ),
    );
  });

  it('for JSON made of words that decoders search for', () => {
    const words = fc.constantFrom(
      ...'messages content parts text type tool_use input usage choices delta tool_calls function arguments index'.split(
        ' ',
      ),
      ...'message_start message content_block_start content_block_delta candidates output item response'.split(
        ' ',
      ),
      ...'functionCall inlineData toolUse toolResult reasoningContent system tools contents role error bytes'.split(
        ' ',
      ),
    );
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { depthSize: 'medium' },
        words,
        fc.constantFrom(null, true, 0, -1, 1e300, ''),
        fc.array(tie('any'), { maxLength: 3 }),
        fc.dictionary(words, tie('any'), { maxKeys: 4 }),
      ),
    })).any;
    fc.assert(
      fc.property(
        fc.constantFrom(...SHAPES),
        fc.dictionary(words, value),
        fc.array(value),
        (shape, body, events) => {
          decodeExchange(stored(shape, { request_body: json(body), response_body: json(body) }));
          decodeExchange(stored(shape, { response_body: sse(...events) }));
        },
      ),
      drawsOf(500),
    );
  });

  it.skipIf(!haveRecordings)(
    'for recorded exchanges cut anywhere or with bits flipped (../shared/recordings)',
    () => {
      const samples = new Map<string, StoredExchange>();
      for (const file of ['mirascope', 'pydantic-ai'] as const) {
        for (const { stored: exchange, line } of readRecordings(file)) {
          const type =
            line.response.headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? '';
          const key = `${file} ${exchange.shape} ${type}`;
          if (exchange.shape !== null && exchange.response_body.byteLength < 100_000)
            samples.set(key, exchange);
        }
      }
      expect(samples.size).toBeGreaterThan(12);
      const exchanges = [...samples.values()];
      fc.assert(
        fc.property(
          fc.constantFrom(...exchanges),
          fc.double({ min: 0, max: 1, noNaN: true }),
          fc.array(fc.tuple(fc.double({ min: 0, max: 0.999, noNaN: true }), fc.nat(7)), { maxLength: 3 }),
          (exchange, cut, flips) => {
            const damage = (bytes: Uint8Array): Uint8Array => {
              const copy = Buffer.from(bytes.subarray(0, Math.ceil(cut * bytes.byteLength)));
              for (const [at, bit] of flips) {
                if (copy.byteLength > 0) copy[Math.floor(at * copy.byteLength)]! ^= 1 << bit;
              }
              return copy;
            };
            const entry = decodeExchange({
              ...exchange,
              request_body: damage(exchange.request_body),
              response_body: damage(exchange.response_body),
            });
            expect(entry.reason !== '').toBe(entry.undecodable);
          },
        ),
        drawsOf(600),
      );
    },
  );
});
