/**
 * The cost of answers at a tier of service other than the standard one, in the forms in which providers report tiers:
 * the price of that tier, and no cost if the tier has no price.
 */
import { describe, expect, it } from 'vitest';
import { CacheDoctor } from '../../src/captures/cache-doctor.ts';
import { priceExchange } from '../../src/captures/exchange-cost.ts';
import type { ApiShape } from '../../src/domain/exchange.ts';
import type { Prices } from '../../src/domain/price.ts';
import { ConverseAnswerReader } from '../../src/providers/bedrock-converse/answer.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { NormalReading } from '../../src/providers/normal-reading.ts';
import { MadeSource } from './made-run.ts';

/** Each answer below has a list price of $10. The only tier with a price, `flex`, costs half of it. */
const PRICES: Prices = { '*': { input: 10, output: 0, cache_read: 0, tiers: { flex: 0.5 } } };
const MILLION = 1_000_000;

interface Told {
  shape: ApiShape;
  path?: string;
  /** A whole answer, or the events of a stream. */
  answer: object | object[];
  headers?: string[];
}

/** Usage and cost of the answer. */
function read({ shape, path = '/v1/any', answer, headers = [] }: Told) {
  const isStream = Array.isArray(answer);
  const body = isStream
    ? answer.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
    : JSON.stringify(answer);
  const { model, usage, stop_reason, undecodable, reason } = decodeExchange({
    shape,
    path,
    status: 200,
    request_headers: [],
    // The request names another tier than the answer.
    request_body: Buffer.from(
      JSON.stringify({ model: 'm', service_tier: 'priority', speed: 'fast', messages: [] }),
    ),
    response_headers: ['content-type', isStream ? 'text/event-stream' : 'application/json', ...headers],
    response_body: Buffer.from(body),
    truncated: false,
  });
  expect(reason).toBe('');
  const cost = priceExchange(
    {
      ...{ id: 1, run_id: 'run', seq: 1, note: '', provider: 'p', kind: 'turn', shape, method: 'POST', path },
      ...{ query: '', status: 200, started_at: '2026-11-28T00:00:00.000Z', first_byte_ms: 1, duration_ms: 2 },
      ...{ aborted: false, truncated: false, undecodable, served_by: 'upstream', model, stop_reason, usage },
    },
    PRICES,
  );
  return { tier: usage.tier, cost };
}

const chat = (told: object) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  model: 'gpt-5-2025-08-07',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: MILLION, completion_tokens: 0, total_tokens: MILLION },
  ...told,
});
const chunk = (more: object) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  model: 'gpt-5-2025-08-07',
  choices: [],
  ...more,
});
const responses = (service_tier: string, status = 'completed') => ({
  id: 'resp_1',
  object: 'response',
  model: 'gpt-5-2025-08-07',
  status,
  service_tier,
  output: [
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes.', annotations: [] }] },
  ],
  usage: status === 'completed' ? { input_tokens: MILLION, output_tokens: 0, total_tokens: MILLION } : null,
});
const messages = (usage: object) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-opus-5',
  content: [{ type: 'text', text: 'Yes.' }],
  stop_reason: 'end_turn',
  usage: {
    input_tokens: MILLION,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: 0,
    ...usage,
  },
});
const gemini = (usage: object) => ({
  candidates: [{ content: { role: 'model', parts: [{ text: 'Yes.' }] }, finishReason: 'STOP' }],
  usageMetadata: {
    promptTokenCount: MILLION,
    candidatesTokenCount: 0,
    totalTokenCount: MILLION,
    ...usage,
  },
  modelVersion: 'gemini-2.5-flash',
});
const converse = (more: object) => ({
  output: { message: { role: 'assistant', content: [{ text: 'Yes.' }] } },
  stopReason: 'end_turn',
  usage: { inputTokens: MILLION, outputTokens: 0, totalTokens: MILLION },
  metrics: { latencyMs: 321 },
  ...more,
});
const GEMINI = '/v1beta/models/gemini-2.5-flash:generateContent';
const VERTEX =
  '/v1/projects/p/locations/global/publishers/google/models/gemini-2.5-flash:streamGenerateContent';
const CONVERSE = '/model/amazon.nova-pro-v1%3A0/converse';
const INVOKE = '/model/anthropic.claude-opus-5-v1%3A0/invoke';

const STANDARD: [string, Told][] = [
  ['OpenAI', { shape: 'chat_completions', answer: chat({ service_tier: 'default' }) }],
  ['OpenAI, null', { shape: 'chat_completions', answer: chat({ service_tier: null }) }],
  ['no field', { shape: 'chat_completions', answer: chat({}) }],
  ['Groq', { shape: 'chat_completions', answer: chat({ service_tier: 'on_demand' }) }],
  [
    'OpenAI, a stream that began at the tier asked for',
    {
      shape: 'responses',
      answer: [
        { type: 'response.created', response: responses('priority', 'in_progress') },
        { type: 'response.completed', response: responses('default') },
      ],
    },
  ],
  ['Anthropic', { shape: 'messages', answer: messages({ service_tier: 'standard', speed: 'standard' }) }],
  ['Anthropic, anywhere', { shape: 'messages', answer: messages({ inference_geo: 'global' }) }],
  ['Anthropic, no choice', { shape: 'messages', answer: messages({ inference_geo: 'not_available' }) }],
  ['Gemini', { shape: 'gemini', path: GEMINI, answer: gemini({ serviceTier: 'standard' }) }],
  [
    'Gemini, downgraded',
    {
      shape: 'gemini',
      path: GEMINI,
      answer: gemini({}),
      headers: ['x-gemini-service-tier', 'standard'],
    },
  ],
  ['Vertex', { shape: 'gemini', path: VERTEX, answer: gemini({ trafficType: 'ON_DEMAND' }) }],
  [
    'Bedrock',
    {
      shape: 'bedrock_converse',
      path: CONVERSE,
      answer: converse({ serviceTier: { type: 'default' }, performanceConfig: { latency: 'standard' } }),
    },
  ],
];

const FLEX: [string, Told][] = [
  ['OpenAI', { shape: 'chat_completions', answer: chat({ service_tier: 'flex' }) }],
  [
    'OpenAI, a stream',
    {
      shape: 'chat_completions',
      answer: [
        chunk({
          choices: [{ index: 0, delta: { role: 'assistant', content: 'Yes.' } }],
          service_tier: 'flex',
        }),
        chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], service_tier: 'flex' }),
        chunk({ usage: { prompt_tokens: MILLION, completion_tokens: 0, total_tokens: MILLION } }),
      ],
    },
  ],
  [
    'OpenAI, a stream of responses',
    {
      shape: 'responses',
      answer: [
        { type: 'response.created', response: responses('auto', 'in_progress') },
        { type: 'response.completed', response: responses('flex') },
      ],
    },
  ],
  [
    'a completion',
    {
      shape: 'completion',
      answer: {
        ...chat({ service_tier: 'flex' }),
        choices: [{ index: 0, text: 'Yes.', finish_reason: 'stop' }],
      },
    },
  ],
  ['Gemini', { shape: 'gemini', path: GEMINI, answer: gemini({ serviceTier: 'flex' }) }],
  [
    'Gemini, in the header alone',
    { shape: 'gemini', path: GEMINI, answer: gemini({}), headers: ['X-Gemini-Service-Tier', 'flex'] },
  ],
  ['Vertex', { shape: 'gemini', path: VERTEX, answer: [gemini({ trafficType: 'ON_DEMAND_FLEX' })] }],
  [
    'Bedrock',
    { shape: 'bedrock_converse', path: CONVERSE, answer: converse({ serviceTier: { type: 'flex' } }) },
  ],
  [
    'Bedrock, InvokeModel',
    {
      shape: 'bedrock_invoke',
      path: INVOKE,
      answer: messages({ service_tier: 'standard' }),
      headers: ['X-Amzn-Bedrock-Service-Tier', 'flex'],
    },
  ],
];

const UNPRICED: [string, string, Told][] = [
  ['OpenAI', 'priority', { shape: 'chat_completions', answer: chat({ service_tier: 'priority' }) }],
  ['OpenAI', 'scale', { shape: 'responses', answer: responses('scale') }],
  ['Anthropic', 'priority', { shape: 'messages', answer: messages({ service_tier: 'priority' }) }],
  ['Anthropic', 'batch', { shape: 'messages', answer: messages({ service_tier: 'batch' }) }],
  ['Anthropic', 'fast', { shape: 'messages', answer: messages({ service_tier: 'standard', speed: 'fast' }) }],
  [
    'Anthropic, a stream',
    'fast',
    {
      shape: 'messages',
      answer: [
        {
          type: 'message_start',
          message: { ...messages({ speed: 'fast' }), content: [], stop_reason: null },
        },
        { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 0 } },
        { type: 'message_stop' },
      ],
    },
  ],
  [
    'Vertex',
    'provisioned_throughput',
    { shape: 'gemini', path: VERTEX, answer: [gemini({ trafficType: 'PROVISIONED_THROUGHPUT' })] },
  ],
  [
    'Bedrock',
    'priority+optimized',
    {
      shape: 'bedrock_converse',
      path: CONVERSE,
      answer: converse({ serviceTier: { type: 'priority' }, performanceConfig: { latency: 'optimized' } }),
    },
  ],
  [
    'Bedrock, InvokeModel',
    'optimized',
    {
      shape: 'bedrock_invoke',
      path: INVOKE,
      answer: messages({}),
      headers: ['x-amzn-bedrock-performanceconfig-latency', 'optimized'],
    },
  ],
  ['a hostile name', '__proto__', { shape: 'chat_completions', answer: chat({ service_tier: '__proto__' }) }],
  [
    'a long name',
    'x'.repeat(64),
    { shape: 'chat_completions', answer: chat({ service_tier: 'x'.repeat(9_000) }) },
  ],
];

describe('the cost of an answer', () => {
  it.each(STANDARD)('at the standard tier has the list price: %s', (_, told) => {
    expect(read(told)).toEqual({ tier: undefined, cost: { usd: 10, basis: 'told', is_unknown: false } });
  });

  it.each(FLEX)('at a priced tier has the price of that tier: %s', (_, told) => {
    expect(read(told)).toEqual({ tier: 'flex', cost: { usd: 5, basis: 'told', is_unknown: false } });
  });

  it.each(UNPRICED)('at a tier without a price is unknown: %s, %s', (_, tier, told) => {
    expect(read(told)).toEqual({ tier, cost: { usd: null, basis: null, is_unknown: true } });
  });

  it.each([
    ['us', { inference_geo: 'us' }, 11],
    ['flex+us', { service_tier: 'flex', inference_geo: 'us' }, 5.5],
    ['batch+us', { service_tier: 'batch', inference_geo: 'us' }, null],
  ])('that was computed in the US only is 1.1 times the price of its tier: %s', (tier, usage, usd) => {
    const is_unknown = usd === null;
    const cost = { usd: usd && expect.closeTo(usd, 9), basis: is_unknown ? null : 'told', is_unknown };
    expect(read({ shape: 'messages', answer: messages(usage) })).toEqual({ tier, cost });
  });

  it('without counts uses its tier for its estimated tokens', () => {
    const answer = [
      chunk({ choices: [{ index: 0, delta: { content: 'Yes.' } }], service_tier: 'priority' }),
      chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], service_tier: 'priority' }),
    ];
    expect(read({ shape: 'chat_completions', answer })).toMatchObject({
      tier: 'priority',
      cost: { usd: null, is_unknown: true },
    });
  });
});

it('the cost of a Converse stream uses the tier in its last event', () => {
  const reader = new ConverseAnswerReader(new NormalReading(), 'nova');
  reader.readEvent('messageStop', { stopReason: 'end_turn' });
  reader.readEvent('metadata', {
    usage: { inputTokens: 1, outputTokens: 2 },
    serviceTier: { type: 'priority' },
  });
  expect(reader.finish().usage).toMatchObject({ input_tokens: 1, tier: 'priority' });
});

it('the cost of a cache miss has the price of its tier', () => {
  const costOf = (tier: string): number | null => {
    const source = new MadeSource();
    const system = `You mend code. ${'Read before you write. '.repeat(400)}`;
    const head = (text: string) => [{ type: 'text', text, cache_control: { type: 'ephemeral' } }];
    const asked = [{ role: 'user', content: 'Mend it.' }];
    source.add({
      run_id: 'run',
      request: { model: 'm', system: head(system), messages: asked },
      response: messages({ input_tokens: 5, cache_creation_input_tokens: 9_000, service_tier: tier }),
    });
    const more = [
      { role: 'assistant', content: 'Yes.' },
      { role: 'user', content: 'Go on.' },
    ];
    source.add({
      run_id: 'run',
      request: { model: 'm', system: head(`Now. ${system}`), messages: [...asked, ...more] },
      response: messages({ input_tokens: 9_005, service_tier: tier }),
    });
    const looks = [...new CacheDoctor(source, PRICES).examineRun('run')];
    expect(looks[1]).toMatchObject({ verdict: 'miss' });
    return looks[1]!.cost_usd;
  };
  const list = costOf('standard')!;
  expect(list).toBeGreaterThan(0);
  expect(costOf('flex')).toBeCloseTo(list / 2, 12);
  expect(costOf('priority')).toBeNull();
});
