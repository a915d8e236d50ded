/** A model's price, and the cost of tokens at that price. */
import { describe, expect, it } from 'vitest';
import { costOfUsage, findPrice, type Prices } from '../../src/domain/price.ts';
import { PRICE_SOURCES, SHIPPED_PRICES } from '../../src/domain/price-table.ts';

const gpt5: Prices = { 'gpt-5': { input: 1.25, output: 10 } };
const sonnet: Prices = { 'claude-sonnet-4-5': { input: 3, output: 15 } };

describe('the price of a model', () => {
  it.each([
    ['gpt-5', gpt5],
    ['gpt-5-2025-08-07', gpt5],
    ['gpt-5-latest', gpt5],
    ['openai/gpt-5', gpt5],
    ['openrouter/openai/gpt-5', gpt5],
    ['azure/gpt-5-2025-08-07', gpt5],
    ['claude-sonnet-4-5-20250929', sonnet],
    ['claude-sonnet-4-5@20250929', sonnet],
    ['anthropic/claude-sonnet-4.5', sonnet],
    ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', sonnet],
    ['anthropic.claude-sonnet-4-5-20250929-v1:0', sonnet],
    [
      'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0',
      sonnet,
    ],
    ['models/gemini-2.5-pro', SHIPPED_PRICES],
    ['publishers/google/models/gemini-2.5-pro', SHIPPED_PRICES],
    ['grok-4.7-0921', SHIPPED_PRICES],
  ])('%s has its own price', (model, prices) => {
    const price = findPrice(prices, model);
    expect(price).not.toBeNull();
    expect(price!.guessed).toBeUndefined();
  });

  it.each([
    ['gpt-5-nano', gpt5],
    ['gpt-5-mini-2025-08-07', gpt5],
    ['openai/gpt-5-nano', gpt5],
    ['claude-sonnet-4-5-fast', sonnet],
  ])('%s has only a guessed price, which is marked', (model, prices) => {
    expect(findPrice(prices, model)).toMatchObject({ guessed: true });
  });

  it.each(['gpt-5.4-mini', 'gpt-55', 'o3-mini', 'gpt', '', '__proto__', 'constructor', 'ft:gpt-5:acme::1'])(
    '%s has no price',
    (model) => {
      expect(findPrice(gpt5, model)).toBeNull();
    },
  );

  it('is that of the longest declared pattern that matches, and then not a guess', () => {
    const prices: Prices = {
      'my-*': { input: 1, output: 1 },
      'my-*-large': { input: 2, output: 2 },
      '*': { input: 9, output: 9 },
      'my-own': { input: 3, output: 3 },
    };
    expect(findPrice(prices, 'my-model')).toEqual({ input: 1, output: 1 });
    expect(findPrice(prices, 'my-model-large')).toEqual({ input: 2, output: 2 });
    expect(findPrice(prices, 'my-own')).toEqual({ input: 3, output: 3 });
    expect(findPrice(prices, 'other')).toEqual({ input: 9, output: 9 });
  });
});

describe('the price at a tier of service', () => {
  const prices: Prices = {
    'gpt-5': {
      input: 1,
      output: 10,
      cache_read: 0.25,
      above: { tokens: 9, input: 2, output: 20 },
      tiers: { flex: 0.5, priority: { input: 3, output: 30 } },
    },
    o3: { input: 1, output: 1 },
  };

  it('is a factor for all rates, or has separate rates', () => {
    expect(findPrice(prices, 'gpt-5', 'flex')).toEqual({
      input: 0.5,
      output: 5,
      cache_read: 0.125,
      above: { tokens: 9, input: 1, output: 10 },
    });
    expect(findPrice(prices, 'gpt-5-2025-08-07', 'priority')).toEqual({ input: 3, output: 30 });
  });

  it('is a guess if the price of the model is a guess', () => {
    expect(findPrice(prices, 'gpt-5-nano', 'flex')).toMatchObject({ input: 0.5, guessed: true });
    expect(findPrice(prices, 'gpt-5-nano', 'priority')).toMatchObject({ input: 3, guessed: true });
  });

  it.each([
    ['gpt-5', 'batch'],
    ['gpt-5', '__proto__'],
    ['gpt-5', 'constructor'],
    ['o3', 'flex'],
    ['other', 'flex'],
  ])('is not known: %s at %s', (model, tier) => {
    expect(findPrice(prices, model, tier)).toBeNull();
  });
});

describe('the cost of tokens', () => {
  const usage = (input: number, read = 0, write = 0, write1h: number | null = null) => ({
    input_tokens: input,
    output_tokens: 0,
    cache_read_tokens: read,
    cache_write_tokens: write,
    cache_write_1h_tokens: write1h,
  });

  it('includes one-hour cache writes at twice the input, others at five quarters', () => {
    const price = { input: 4, output: 0 };
    expect(costOfUsage(usage(0, 0, 1_000_000), price)).toBe(5);
    expect(costOfUsage(usage(0, 0, 1_000_000, 1_000_000), price)).toBe(8);
    expect(costOfUsage(usage(0, 0, 1_000_000, 250_000), price)).toBe(0.75 * 5 + 2);
    expect(costOfUsage(usage(0, 0, 1_000_000, 500_000), { ...price, cache_write_1h: 1 })).toBe(3);
  });

  it('has other rates above a size of the input, including the cache', () => {
    const price = { input: 1, output: 0, above: { tokens: 200_000, input: 2, output: 0 } };
    expect(costOfUsage(usage(200_000), price)).toBeCloseTo(0.2);
    expect(costOfUsage(usage(100_001, 100_000), price)).toBeCloseTo(0.200_002 + 0.02);
  });
});

describe('the shipped price table', () => {
  it('has models of at least five providers, with page, source and date', () => {
    expect(new Set(PRICE_SOURCES.map(({ provider }) => provider)).size).toBeGreaterThanOrEqual(5);
    for (const { read_on, page, source, prices } of PRICE_SOURCES) {
      expect(read_on).toMatch(/^2026-\d\d-\d\d$/);
      expect(page).toMatch(/^https:/);
      expect(source).not.toBe('');
      for (const [model, { input, output }] of Object.entries(prices)) {
        expect(output, model).toBeGreaterThanOrEqual(input);
        expect(input, model).toBeGreaterThan(0);
      }
    }
    const all = PRICE_SOURCES.flatMap(({ prices }) => Object.keys(prices));
    expect(new Set(all).size).toBe(all.length);
  });

  it('gives the cost that Claude Code 2.1.332 reported for a session', () => {
    const opus = findPrice(SHIPPED_PRICES, 'claude-opus-5-5')!;
    const usage = {
      input_tokens: 54,
      output_tokens: 160,
      cache_read_tokens: 63_000,
      cache_write_tokens: 1_920,
    };
    expect(costOfUsage({ ...usage, cache_write_1h_tokens: null }, opus)).toBeCloseTo(0.025_616, 9);
    expect(opus.guessed).toBeUndefined();
  });
});
