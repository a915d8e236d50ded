/**
 * The normal form of a turn: the same conversation in several wire formats, pairing of calls and results, settings, and
 * hostile bodies.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ApiShape } from '../../src/domain/exchange.ts';
import type { NormalTurn, TurnBlock } from '../../src/domain/turn.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';
import { normalizeStop } from '../../src/providers/wire.ts';
import { WIRES } from '../../src/providers/wires.ts';
import { drawsOf } from '../long-parts.ts';

const PATHS: Record<ApiShape, string> = {
  messages: '/v1/messages',
  chat_completions: '/v1/chat/completions',
  responses: '/v1/responses',
  completion: '/v1/completions',
  gemini: '/v1beta/models/gemini-x:generateContent',
  bedrock_converse: '/model/maker.model-1%3A0/converse',
  bedrock_invoke: '/model/maker.model-1%3A0/invoke',
};

interface Told {
  request?: unknown;
  response?: unknown;
  status?: number;
  type?: string;
}

function read(
  shape: ApiShape,
  { request = {}, response = {}, status = 200, type = 'application/json' }: Told,
): NormalTurn {
  const bytes = (body: unknown): Uint8Array =>
    body instanceof Uint8Array ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return normalizeTurn({
    shape,
    path: PATHS[shape],
    status,
    request_headers: [],
    response_headers: ['content-type', type],
    request_body: bytes(request),
    response_body: bytes(response),
    truncated: false,
  })!;
}

const schema = { type: 'object', properties: { path: { type: 'string' } } };

/** One conversation with one forced tool call, in four wire formats. */
const SAME: Partial<Record<ApiShape, Told>> = {
  messages: {
    request: {
      model: 'm',
      max_tokens: 9,
      system: 'Mend.',
      tools: [{ name: 'read', description: 'Reads.', input_schema: schema }],
      tool_choice: { type: 'tool', name: 'read' },
      messages: [
        { role: 'user', content: 'Go.' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'read', input: { path: 'a' } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'text of a' }] },
      ],
    },
    response: {
      id: 'a1',
      type: 'message',
      model: 'm-1',
      content: [
        { type: 'text', text: 'Now b.' },
        { type: 'tool_use', id: 'c2', name: 'read', input: { path: 'b' } },
      ],
      stop_reason: 'tool_use',
      usage: {
        input_tokens: 10,
        output_tokens: 3,
        cache_read_input_tokens: 4,
        cache_creation_input_tokens: 2,
      },
    },
  },
  chat_completions: {
    request: {
      model: 'm',
      max_completion_tokens: 9,
      tools: [{ type: 'function', function: { name: 'read', description: 'Reads.', parameters: schema } }],
      tool_choice: { type: 'function', function: { name: 'read' } },
      messages: [
        { role: 'system', content: 'Mend.' },
        { role: 'user', content: 'Go.' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'read', arguments: '{"path":"a"}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'text of a' },
      ],
    },
    response: {
      id: 'a1',
      model: 'm-1',
      choices: [
        {
          index: 0,
          // OpenAI's stop word after a forced call.
          finish_reason: 'stop',
          message: {
            role: 'assistant',
            content: 'Now b.',
            tool_calls: [
              { id: 'c2', type: 'function', function: { name: 'read', arguments: '{"path":"b"}' } },
            ],
          },
        },
      ],
      usage: {
        prompt_tokens: 16,
        completion_tokens: 3,
        prompt_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 },
      },
    },
  },
  responses: {
    request: {
      model: 'm',
      max_output_tokens: 9,
      instructions: 'Mend.',
      tools: [{ type: 'function', name: 'read', description: 'Reads.', parameters: schema }],
      tool_choice: { type: 'function', name: 'read' },
      input: [
        { role: 'user', content: 'Go.' },
        { type: 'function_call', call_id: 'c1', name: 'read', arguments: '{"path":"a"}' },
        { type: 'function_call_output', call_id: 'c1', output: 'text of a' },
      ],
    },
    response: {
      id: 'a1',
      model: 'm-1',
      status: 'completed',
      output: [
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Now b.' }] },
        { type: 'function_call', call_id: 'c2', name: 'read', arguments: '{"path":"b"}' },
      ],
      usage: {
        input_tokens: 16,
        output_tokens: 3,
        input_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 },
      },
    },
  },
  bedrock_converse: {
    request: {
      inferenceConfig: { maxTokens: 9 },
      system: [{ text: 'Mend.' }],
      toolConfig: {
        tools: [{ toolSpec: { name: 'read', description: 'Reads.', inputSchema: { json: schema } } }],
        toolChoice: { tool: { name: 'read' } },
      },
      messages: [
        { role: 'user', content: [{ text: 'Go.' }] },
        {
          role: 'assistant',
          content: [{ toolUse: { toolUseId: 'c1', name: 'read', input: { path: 'a' } } }],
        },
        {
          role: 'user',
          content: [{ toolResult: { toolUseId: 'c1', status: 'success', content: [{ text: 'text of a' }] } }],
        },
      ],
    },
    response: {
      output: {
        message: {
          role: 'assistant',
          content: [
            { text: 'Now b.' },
            { toolUse: { toolUseId: 'c2', name: 'read', input: { path: 'b' }, type: 'tool_use' } },
          ],
        },
      },
      stopReason: 'tool_use',
      usage: { inputTokens: 10, outputTokens: 3, cacheReadInputTokens: 4, cacheWriteInputTokens: 2 },
    },
  },
};

const resultsOf = (turn: NormalTurn): unknown[] =>
  turn.request.messages.flatMap(({ role, content }) =>
    content.flatMap((block) =>
      block.type === 'tool_result' ? [[role, block.call_id, block.name, block.is_error]] : [],
    ),
  );

describe('normalizeTurn', () => {
  it('returns the same conversation for Messages, chat completions, responses and Converse', () => {
    const turns = Object.entries(SAME).map(([shape, told]) => read(shape as ApiShape, told));
    const [first] = turns;
    expect(first!.request.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(resultsOf(first!)).toEqual([['tool', 'c1', 'read', false]]);
    expect(first!.request.tool_choice).toEqual({ mode: 'tool', names: ['read'], parallel: null });
    expect(first!.answer).toMatchObject({
      stop_reason: 'tool_use',
      usage: { input_tokens: 10, output_tokens: 3, cache_read_tokens: 4, cache_write_tokens: 2 },
    });
    expect(turns).toHaveLength(4);
    for (const turn of turns) {
      expect({ ...turn.request, model: '' }).toEqual({ ...first!.request, model: '' });
      expect({ ...turn.answer, id: '', model: '' }).toEqual({ ...first!.answer, id: '', model: '' });
      expect(turn.problem).toBe('');
    }
  });

  it('pairs Gemini calls without ids by name and order, parallel ones too', () => {
    const call = (name: string, args: object) => ({ functionCall: { name, args } });
    const result = (name: string, output: string) => ({
      functionResponse: { name, response: output === 'bad' ? { error: output } : { output } },
    });
    const turn = read('gemini', {
      request: {
        contents: [
          { role: 'user', parts: [{ text: 'Go.' }] },
          {
            role: 'model',
            parts: [call('read', { path: 'a' }), call('list', {}), call('read', { path: 'b' })],
          },
          { role: 'user', parts: [result('list', 'x'), result('read', 'A'), result('read', 'bad')] },
        ],
      },
      response: { candidates: [{ content: { parts: [call('read', { path: 'c' })] }, finishReason: 'STOP' }] },
    });
    expect(resultsOf(turn)).toEqual([
      ['tool', 'order:2', 'list', false],
      ['tool', 'order:1', 'read', false],
      ['tool', 'order:3', 'read', true],
    ]);
    expect(turn.answer.content).toMatchObject([{ type: 'tool_call', id: 'order:4', name: 'read' }]);
    expect(turn.answer.stop_reason).toBe('tool_use');
    expect(turn.request.model).toBe('gemini-x');
  });

  it('accepts the ids of the newest Gemini models, and joins the texts of a stream', () => {
    const chunk = (part: object, finishReason?: string) => ({
      candidates: [{ content: { parts: [part] }, ...(finishReason && { finishReason }) }],
    });
    const turn = read('gemini', {
      response: [
        chunk({ text: 'Hm', thought: true }),
        chunk({ text: 'm.', thought: true }),
        chunk({ text: 'Loo' }),
        chunk({ text: 'king.', thoughtSignature: 'S1' }),
        chunk({ functionCall: { id: 'g1', name: 'read', args: {} }, thoughtSignature: 'S2' }, 'STOP'),
      ],
    });
    expect(turn.answer.content).toEqual([
      { type: 'thinking', text: 'Hmm.', signature: null, redacted: false },
      { type: 'text', text: 'Looking.', signature: 'S1' },
      { type: 'tool_call', id: 'g1', name: 'read', input: {}, signature: 'S2' },
    ]);
  });

  it('reads tools that items of the input declare, as Codex sends them to newer models', () => {
    const { system, messages, tools } = read('responses', {
      request: {
        tools: [{ type: 'function', name: 'plan' }],
        input: [
          {
            type: 'additional_tools',
            role: 'developer',
            tools: [
              { type: 'namespace', name: 'functions', tools: [{ type: 'custom', name: 'exec' }] },
              { type: 'function', name: 'wait', parameters: schema },
            ],
          },
          { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'You code.' }] },
          { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Mend it.' }] },
        ],
      },
    }).request;
    expect(tools).toMatchObject([
      { kind: 'function', name: 'plan' },
      { kind: 'function', name: 'exec', settings: { namespace: 'functions' } },
      { kind: 'function', name: 'wait', input_schema: schema },
    ]);
    expect(system).toEqual([{ type: 'text', text: 'You code.' }]);
    expect(messages).toEqual([{ role: 'user', content: [{ type: 'text', text: 'Mend it.' }] }]);
  });

  it('keeps the id of a result whose call the provider stores', () => {
    const turn = read('responses', {
      request: {
        previous_response_id: 'r0',
        input: [{ type: 'function_call_output', call_id: 'c9', output: 'done' }],
      },
    });
    expect(resultsOf(turn)).toEqual([['tool', 'c9', null, false]]);
    expect(turn.request.previous_answer_id).toBe('r0');
  });

  it('reads thinking, schemas and tool choices of five wire formats', () => {
    const format = { type: 'json_schema', name: 'out', schema, strict: true };
    const settings = (shape: ApiShape, request: object) => {
      const { thinking, response_schema, tool_choice } = read(shape, { request }).request;
      return { thinking, response_schema, tool_choice };
    };
    expect(
      settings('messages', {
        thinking: { type: 'enabled', budget_tokens: 2048 },
        output_config: { format: { type: 'json_schema', schema } },
        tool_choice: { type: 'any', disable_parallel_tool_use: true },
      }),
    ).toEqual({
      thinking: { mode: 'on', budget_tokens: 2048, effort: null },
      response_schema: { schema, name: null, strict: null },
      tool_choice: { mode: 'any', names: [], parallel: false },
    });
    expect(
      settings('chat_completions', {
        reasoning_effort: 'high',
        response_format: { type: 'json_schema', json_schema: format },
        tool_choice: 'required',
        parallel_tool_calls: false,
      }),
    ).toEqual({
      thinking: { mode: 'adaptive', budget_tokens: null, effort: 'high' },
      response_schema: { schema, name: 'out', strict: true },
      tool_choice: { mode: 'any', names: [], parallel: false },
    });
    expect(
      settings('responses', {
        reasoning: { effort: 'none' },
        text: { format },
        tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'read' }] },
      }),
    ).toEqual({
      thinking: { mode: 'off', budget_tokens: null, effort: 'none' },
      response_schema: { schema, name: 'out', strict: true },
      tool_choice: { mode: 'auto', names: ['read'], parallel: null },
    });
    expect(
      settings('gemini', {
        generationConfig: {
          thinkingConfig: { thinkingBudget: 0 },
          responseMimeType: 'application/json',
          responseSchema: schema,
        },
        toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['read'] } },
      }),
    ).toEqual({
      thinking: { mode: 'off', budget_tokens: null, effort: null },
      response_schema: { schema, name: null, strict: null },
      tool_choice: { mode: 'any', names: ['read'], parallel: null },
    });
    expect(
      settings('bedrock_converse', {
        additionalModelRequestFields: { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
        outputConfig: {
          textFormat: {
            type: 'json_schema',
            structure: { jsonSchema: { name: 'out', schema: JSON.stringify(schema) } },
          },
        },
        toolConfig: { toolChoice: { any: {} } },
      }),
    ).toEqual({
      thinking: { mode: 'adaptive', budget_tokens: null, effort: 'low' },
      response_schema: { schema, name: 'out', strict: null },
      tool_choice: { mode: 'any', names: [], parallel: null },
    });
  });

  it('shows cache points, media and the provider’s tools', () => {
    const turn = read('messages', {
      request: {
        system: [{ type: 'text', text: 'S', cache_control: { type: 'ephemeral', ttl: '1h' } }],
        tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }],
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD' } },
              { type: 'document', source: { type: 'url', url: 'https://a/b.pdf' } },
            ],
          },
        ],
      },
    });
    expect(turn.request.system).toEqual([
      { type: 'text', text: 'S' },
      { type: 'cache_point', ttl: '1h' },
    ]);
    expect(turn.request.tools).toEqual([
      {
        kind: 'provider',
        name: 'web_search',
        description: '',
        input_schema: null,
        settings: { type: 'web_search_20250305', max_uses: 2 },
      },
    ]);
    expect(turn.request.messages[0]!.content).toEqual([
      { type: 'media', kind: 'image', media_type: 'image/png', source: 'base64', data: 'QUJD' },
      { type: 'media', kind: 'document', media_type: null, source: 'url', data: 'https://a/b.pdf' },
    ]);
    const converse = read('bedrock_converse', { request: { system: [{ text: 'S' }, { cachePoint: {} }] } });
    expect(converse.request.system.at(-1)).toEqual({ type: 'cache_point', ttl: null });
  });

  it('flags unreadable parts, and returns the rest', () => {
    expect(read('messages', { request: '{"model":' }).problem).toContain('request: not JSON');
    const cut =
      'event: message_start\ndata: {"type":"message_start","message":{"id":"a","model":"m"}}\n\ndata: {"ty';
    const turn = read('messages', { response: cut, type: 'text/event-stream' });
    expect(turn.problem).toContain('answer: event 2 is not JSON');
    expect(turn.answer).toMatchObject({ id: 'a', model: 'm', stop_reason: null });
    const failed = read('messages', {
      status: 529,
      response: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    });
    expect(failed.answer).toMatchObject({
      content: [],
      stop_reason: null,
      error: 'overloaded_error: Overloaded',
    });
    expect(failed.problem).toBe('');
  });

  it('reads at most the maximum number of blocks, and reports that there are more', () => {
    const content = Array.from({ length: 1000 }, () => ({ type: 'text', text: 'x' }));
    const messages = Array.from({ length: 300 }, () => ({ role: 'user', content }));
    const turn = read('messages', { request: { messages } });
    expect(turn.problem).toBe('more blocks, tools or events than are read');
    const kept = turn.request.messages.reduce((sum, message) => sum + message.content.length, 0);
    expect(kept).toBeLessThanOrEqual(200_000);
    expect(kept).toBeGreaterThan(190_000);
  });

  it('returns nothing without a wire format, or for an embedding', () => {
    const stored = {
      path: '/v1/models',
      status: 200,
      request_headers: [],
      response_headers: [],
      request_body: Buffer.from('{"inputText":"x"}'),
      response_body: Buffer.from('{"embedding":[1]}'),
      truncated: false,
    };
    expect(normalizeTurn({ ...stored, shape: null })).toBeNull();
    expect(normalizeTurn({ ...stored, shape: 'bedrock_invoke', path: '/model/arn-x/invoke' })).toBeNull();
  });

  it.each([
    [
      'Titan',
      { inputText: 'Go.', textGenerationConfig: { maxTokenCount: 9 } },
      {
        inputTextTokenCount: 1,
        results: [{ tokenCount: 2, outputText: 'Yes.', completionReason: 'FINISH' }],
      },
    ],
    [
      'Llama',
      { prompt: 'Go.', max_gen_len: 9 },
      { generation: 'Yes.', prompt_token_count: 1, generation_token_count: 2, stop_reason: 'FINISH' },
    ],
    ['Mistral', { prompt: 'Go.', max_tokens: 9 }, { outputs: [{ text: 'Yes.', stop_reason: 'FINISH' }] }],
    [
      'Cohere',
      { prompt: 'Go.', max_tokens: 9 },
      { generations: [{ text: 'Yes.', finish_reason: 'FINISH' }] },
    ],
    ['Command R', { message: 'Go.', max_tokens: 9 }, { text: 'Yes.', finish_reason: 'FINISH' }],
    [
      'Jurassic',
      { prompt: 'Go.', maxTokens: 9 },
      { completions: [{ data: { text: 'Yes.', tokens: [] }, finishReason: { reason: 'FINISH' } }] },
    ],
  ])('reads the text of %s for the record and for the trace', (_name, request, response) => {
    const stored = {
      shape: 'bedrock_invoke' as const,
      path: '/model/maker.model-1/invoke',
      status: 200,
      request_headers: [],
      response_headers: [],
      request_body: Buffer.from(JSON.stringify(request)),
      response_body: Buffer.from(JSON.stringify(response)),
      truncated: false,
    };
    const said = [{ type: 'text', text: 'Yes.' }];
    expect(decodeExchange(stored)).toMatchObject({
      stop_reason: 'FINISH',
      conversation: [expect.any(String)],
    });
    expect(normalizeTurn(stored)).toMatchObject({
      request: {
        messages: [{ role: 'user', content: [{ type: 'text', text: 'Go.' }] }],
        max_output_tokens: 9,
      },
      answer: { content: said },
    });
  });

  it('keeps an unknown stop reason separate from the known ones', () => {
    const call: TurnBlock = { type: 'tool_call', id: 'a', name: 'b', input: {} };
    expect(normalizeStop(WIRES.gemini, 'constructor', [])).toBe('other');
    expect(normalizeStop(WIRES.gemini, 'STOP', [])).toBe('end_turn');
    expect(normalizeStop(WIRES.gemini, 'STOP', [call])).toBe('tool_use');
    expect(normalizeStop(WIRES.gemini, 'max_tokens', [call])).toBe('max_tokens');
    expect(normalizeStop(WIRES.gemini, null, [call])).toBeNull();
  });

  const SHAPES = Object.keys(PATHS) as ApiShape[];
  /** Words of all wire formats, so that made-up bodies pass the first check. */
  const KEYS = [
    'type role content messages system tools tool_choice thinking text input id name tool_use_id parts contents',
    'functionCall functionResponse args response candidates choices message delta tool_calls function arguments',
    'output item index content_block usage output_index toolUse toolResult toolUseId reasoningContent start',
    'contentBlockIndex bytes cachePoint generationConfig toolConfig reasoning summary annotations anthropic_version',
  ]
    .join(' ')
    .split(' ');
  const WORDS = ['text', 'tool_use', 'tool_result', 'assistant', 'user', 'tool', 'message', 'function_call'];
  const hostile = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'medium', withCrossShrink: true },
      fc.constantFrom<unknown>(null, true, -1, 1e308, '', ...WORDS),
      fc.string(),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.constantFrom(...KEYS), tie('value'), { maxKeys: 6 }),
    ),
  })).value;

  it('never throws, and returns plain JSON, for any bodies', () => {
    fc.assert(
      fc.property(fc.constantFrom(...SHAPES), hostile, hostile, (shape, request, response) => {
        const turn = read(shape, { request: JSON.stringify(request), response: JSON.stringify(response) });
        if (turn !== null) expect(JSON.parse(JSON.stringify(turn))).toEqual(turn);
      }),
      drawsOf(1_500),
    );
  });

  it('never throws on events of any kind, or on invalid bytes', () => {
    const names = [
      'content_block_start content_block_delta message_delta response.output_item.added response.completed',
      'response.output_text.delta contentBlockStart contentBlockDelta',
    ]
      .join(' ')
      .split(' ');
    const event = fc.tuple(fc.constantFrom(...names), hostile);
    fc.assert(
      fc.property(fc.constantFrom(...SHAPES), fc.array(event, { maxLength: 8 }), (shape, events) => {
        const body = events
          .map(([name, value]) => {
            const data =
              typeof value === 'object' && !Array.isArray(value) ? { ...value, type: name } : value;
            return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
          })
          .join('');
        read(shape, { response: body, type: 'text/event-stream' });
      }),
      drawsOf(1_000),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...SHAPES),
        fc.uint8Array({ maxLength: 200 }),
        fc.uint8Array({ maxLength: 200 }),
        fc.constantFrom('application/json', 'text/event-stream', 'application/vnd.amazon.eventstream', ''),
        (shape, request, response, type) => {
          read(shape, { request, response, type });
        },
      ),
      drawsOf(1_000),
    );
    const deep = `${'[{"content":'.repeat(20_000)}1${'}]'.repeat(20_000)}`;
    for (const shape of SHAPES)
      read(shape, { request: `{"messages":${deep},"contents":${deep}}`, response: deep });
  });

  it('returns nothing that is nested too deeply to be written', () => {
    const deep = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`;
    const block = (input: string): string => `{"type":"tool_use","id":"c","name":"run","input":${input}}`;
    const asked = (input: string): string =>
      `{"messages":[{"role":"assistant","content":[${block(input)}]}],"tools":[{"name":"run","input_schema":${input}}]}`;
    const answered = (input: string): string =>
      `{"type":"message","role":"assistant","content":[${block(input)}]}`;
    const request = read('messages', { request: asked(deep), response: answered('{"b":2}') });
    expect(request.problem).toBe('request: not JSON (nested deeper than 512 levels)');
    expect(request.answer.content).toMatchObject([{ type: 'tool_call', input: { b: 2 } }]);
    expect(JSON.stringify(request)).not.toContain('{"a":');

    const answer = read('messages', { request: asked('{"b":2}'), response: answered(deep) });
    expect(answer.problem).toBe('answer: not JSON (nested deeper than 512 levels)');
    expect(JSON.stringify(answer)).not.toContain('{"a":');

    // Arguments of a call stay a text if they arrive as text or in pieces of a stream.
    const calls = [{ id: 'c', type: 'function', function: { name: 'run', arguments: deep } }];
    const told = {
      choices: [{ message: { role: 'assistant', tool_calls: calls }, finish_reason: 'tool_calls' }],
    };
    expect(read('chat_completions', { response: told }).answer.content).toMatchObject([
      { type: 'tool_call', name: 'run' },
    ]);
    expect(() => JSON.stringify(read('chat_completions', { response: told }))).not.toThrow();
  });

  it('reads content of the maximum depth', () => {
    const input = `${'{"a":'.repeat(507)}1${'}'.repeat(507)}`;
    const request = `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"run","input":${input}}]}]}`;
    const response = { type: 'message', content: [], stop_reason: 'end_turn' };
    expect(read('messages', { request, response }).problem).toBe('');
    expect(
      read('messages', { request: request.replace(input, `{"a":${input}}`), response }).problem,
    ).not.toBe('');
  });
});
