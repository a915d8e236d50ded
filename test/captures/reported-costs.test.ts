/** The cost of reported usage equals the provider's bill. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { priceExchange } from '../../src/captures/exchange-cost.ts';
import type { ListedExchange } from '../../src/captures/exchange-source.ts';
import type { ApiShape } from '../../src/domain/exchange.ts';
import type { CostBasis, Prices } from '../../src/domain/price.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { sharedFile } from '../fixtures/shared.ts';

const PRICES: Prices = {
  'm-test': { input: 1, output: 10 },
  'grok-4': { input: 1, output: 10 },
  'claude-sonnet-4-5': { input: 3, output: 15 },
  'gpt-5': { input: 1.25, output: 10 },
  'gemini-3-flash': { input: 0.5, output: 3 },
};

/** The exchange as the index lists it. */
function list(request: Buffer, response: Buffer, shape: ApiShape): ListedExchange {
  const isStream = !/^\s*\{/.test(response.toString());
  const path = shape === 'messages' ? '/v1/messages' : '/v1/chat/completions';
  const entry = decodeExchange({
    shape,
    path,
    status: 200,
    request_headers: [],
    response_headers: ['content-type', isStream ? 'text/event-stream' : 'application/json'],
    request_body: request,
    response_body: response,
    truncated: false,
  });
  const { model, usage, stop_reason, undecodable } = entry;
  return {
    ...{ id: 1, run_id: 'run', seq: 1, note: '', provider: 'p', kind: 'turn', shape, method: 'POST', path },
    ...{ query: '', status: 200, started_at: '2026-11-28T00:00:00.000Z', first_byte_ms: 1, duration_ms: 2 },
    ...{ aborted: false, truncated: false, undecodable, served_by: 'upstream', model, stop_reason, usage },
  };
}

const CASES: [name: string, shape: ApiShape, usd: number | null, basis: CostBasis | null][] = [
  ['d4-deepseek-cache-hit', 'chat_completions', 0.00039, 'told'],
  ['d8-litellm-anthropic-caches', 'chat_completions', 0.00062, 'told'],
  ['d3-xai-reasoning-apart-stream', 'chat_completions', 0.00512, 'told'],
  ['d3b-xai-reasoning-apart-whole', 'chat_completions', 0.00512, 'told'],
  ['e1-compaction-iterations-stream', 'messages', 0.6765, 'told'],
  ['e1b-compaction-iterations-whole', 'messages', 0.6765, 'told'],
  ['e2-one-hour-cache', 'messages', 6.00153, 'told'],
  ['e3-delta-zero-overrides', 'messages', 0.048855, 'told'],
];

const PRICED: [name: string, basis: CostBasis | null][] = [
  ['g-price-gpt-5-2025-08-07', 'told'],
  ['g-price-openai_gpt-5', 'told'],
  ['g-price-gpt-5-nano', 'guessed_price'],
  ['g-price-gpt-5-mini-2025-08-07', 'guessed_price'],
  ['g-price-gpt-5.4-mini', null],
  ['g-price-o3-mini', null],
];

function read(name: string, shape: ApiShape): ListedExchange {
  const path = (side: string): string => sharedFile(`reported/${name}.0.${side}`).path;
  return list(readFileSync(path('request')), readFileSync(path('response')), shape);
}

describe('reported costs', () => {
  for (const [name, shape, usd, basis] of CASES) {
    const file = sharedFile(`reported/${name}.0.request`);
    it.skipIf(!file.is_there)(`${name} has the expected cost and basis ${file.needed}`, () => {
      const cost = priceExchange(read(name, shape), PRICES);
      expect(cost.usd).toBeCloseTo(usd!, 10);
      expect(cost.basis).toBe(basis);
    });
  }

  for (const [name, basis] of PRICED) {
    const file = sharedFile(`reported/${name}.0.request`);
    it.skipIf(!file.is_there)(`${name} has the expected basis of its price ${file.needed}`, () => {
      expect(priceExchange(read(name, 'chat_completions'), { 'gpt-5': PRICES['gpt-5']! }).basis).toBe(basis);
    });
  }
});

describe('a stream without usage', () => {
  const events = (...chunks: object[]): Buffer =>
    Buffer.from(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
  const request = Buffer.from(
    JSON.stringify({
      model: 'm-test',
      stream: true,
      messages: [{ role: 'user', content: 'word '.repeat(800) }],
    }),
  );

  it('has its tokens estimated, with a mark', () => {
    const text = 'answer '.repeat(400);
    const answer = events(
      { id: 'c', model: 'm-test', choices: [{ index: 0, delta: { role: 'assistant', content: text } }] },
      { id: 'c', model: 'm-test', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    );
    const listed = list(request, answer, 'chat_completions');
    expect(listed.usage.estimated).toBe(true);
    expect(listed.usage.input_tokens).toBeGreaterThan(900);
    expect(listed.usage.input_tokens).toBeLessThan(1_100);
    expect(listed.usage.output_tokens).toBeGreaterThan(650);
    expect(listed.usage.output_tokens).toBeLessThan(750);
    expect(priceExchange(listed, PRICES)).toMatchObject({ basis: 'estimated_tokens', is_unknown: false });
  });

  it('has no estimate without an answer, or if the provider sent tokens', () => {
    const empty = events({ id: 'c', model: 'm-test', choices: [] });
    expect(list(request, empty, 'chat_completions').usage).toMatchObject({ input_tokens: null });
    const told = events(
      { id: 'c', model: 'm-test', choices: [{ index: 0, delta: { content: 'a' }, finish_reason: 'stop' }] },
      { id: 'c', model: 'm-test', choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } },
    );
    const { usage } = list(request, told, 'chat_completions');
    expect(usage).toMatchObject({ input_tokens: 7, output_tokens: 3 });
    expect(usage.estimated).toBeUndefined();
  });
});
