/**
 * Model prices from their providers' pages, with the source and date of each. Used when GW_PRICES is not set. A model
 * whose price has changed since, or depends on the hour (DeepSeek), is left out: no price is better than a wrong one.
 * Data; any thread.
 */
import type { Price } from './price.ts';

/** Prices read from one page on one day. */
interface PriceSource {
  provider: string;
  /** The day on which the page had these prices. */
  read_on: string;
  /** The provider's page. */
  page: string;
  /** Where the prices on this page were read. */
  source: string;
  /** Prices by model, in dollars per million tokens. The defaults in price.ts replace absent cache prices. */
  prices: Readonly<Record<string, Price>>;
}

export const PRICE_SOURCES: readonly PriceSource[] = [
  {
    provider: 'Anthropic',
    read_on: '2026-07-24',
    page: 'https://platform.claude.com/docs/en/about-claude/pricing',
    source:
      'the page itself, undated; the same figures in BerriAI/litellm, model_prices_and_context_window.json, as mirrored by Wei-Shaw/model-price-repo at f9ff147',
    prices: {
      'claude-fable-5': { input: 10, output: 50 },
      'claude-opus-5': { input: 5, output: 25 },
      'claude-opus-4-8': { input: 5, output: 25 },
      'claude-opus-4-7': { input: 5, output: 25 },
      'claude-opus-4-6': { input: 5, output: 25 },
      'claude-opus-4-5': { input: 5, output: 25 },
      'claude-opus-4-1': { input: 15, output: 75 },
      'claude-opus-4': { input: 15, output: 75 },
      'claude-sonnet-5': { input: 2, output: 10 },
      'claude-sonnet-4-6': { input: 3, output: 15 },
      'claude-sonnet-4-5': { input: 3, output: 15 },
      'claude-sonnet-4': { input: 3, output: 15 },
      'claude-3-7-sonnet': { input: 3, output: 15 },
      'claude-haiku-4-5': { input: 1, output: 5 },
      'claude-3-5-haiku': { input: 0.8, output: 4 },
    },
  },
  {
    provider: 'Anthropic',
    read_on: '2026-12-01',
    page: 'https://platform.claude.com/docs/en/about-claude/pricing',
    source:
      'the catalogue of models in @anthropic-ai/claude-code 2.1.332, from which Claude Code computes its costs',
    prices: {
      'claude-fable-5-1': { input: 10, output: 50, cache_read: 0.25 },
      'claude-fable-5-2': { input: 8, output: 40, cache_read: 0.2 },
      'claude-mythos-5': { input: 10, output: 50 },
      'claude-mythos-5-1': { input: 10, output: 50, cache_read: 0.25 },
      'claude-mythos-5-2': { input: 8, output: 40, cache_read: 0.2 },
      'claude-opus-5-5': { input: 4, output: 20, cache_read: 0.2 },
      'claude-sonnet-5-5': { input: 2, output: 10, cache_read: 0.1 },
      'claude-haiku-5-5': {
        input: 0.1,
        output: 0.5,
        above: { tokens: 100_000, input: 0.5, output: 2.5 },
      },
    },
  },
  {
    provider: 'OpenAI',
    read_on: '2026-07-24',
    page: 'https://developers.openai.com/api/docs/pricing',
    source:
      'BerriAI/litellm, model_prices_and_context_window.json, as mirrored by Wei-Shaw/model-price-repo at f9ff147',
    prices: {
      'gpt-4.1': { input: 2, output: 8, cache_read: 0.5 },
      'gpt-4.1-mini': { input: 0.4, output: 1.6, cache_read: 0.1 },
      'gpt-4.1-nano': { input: 0.1, output: 0.4, cache_read: 0.025 },
      'gpt-4o': { input: 2.5, output: 10, cache_read: 1.25 },
      'gpt-4o-mini': { input: 0.15, output: 0.6, cache_read: 0.075 },
      'gpt-5': { input: 1.25, output: 10, cache_read: 0.125 },
      'gpt-5-chat-latest': { input: 1.25, output: 10, cache_read: 0.125 },
      'gpt-5-codex': { input: 1.25, output: 10, cache_read: 0.125 },
      'gpt-5-mini': { input: 0.25, output: 2, cache_read: 0.025 },
      'gpt-5-nano': { input: 0.05, output: 0.4, cache_read: 0.005 },
      'gpt-5-pro': { input: 15, output: 120, cache_read: 15 },
      'gpt-5.1': { input: 1.25, output: 10, cache_read: 0.125 },
      'gpt-5.1-codex': { input: 1.25, output: 10, cache_read: 0.125 },
      'gpt-5.1-codex-max': { input: 1.25, output: 10, cache_read: 0.125 },
      'gpt-5.1-codex-mini': { input: 0.25, output: 2, cache_read: 0.025 },
      'gpt-5.2': { input: 1.75, output: 14, cache_read: 0.175 },
      'gpt-5.2-codex': { input: 1.75, output: 14, cache_read: 0.175 },
      'gpt-5.2-pro': { input: 21, output: 168, cache_read: 21 },
      'gpt-5.3-codex': { input: 1.75, output: 14, cache_read: 0.175 },
      'gpt-5.4': {
        input: 2.5,
        output: 15,
        cache_read: 0.25,
        above: { tokens: 272000, input: 5, output: 22.5, cache_read: 0.5 },
      },
      'gpt-5.4-mini': { input: 0.75, output: 4.5, cache_read: 0.075 },
      'gpt-5.4-nano': { input: 0.2, output: 1.25, cache_read: 0.02 },
      'gpt-5.4-pro': {
        input: 30,
        output: 180,
        cache_read: 3,
        above: { tokens: 272000, input: 60, output: 270, cache_read: 6 },
      },
      'gpt-5.5': {
        input: 5,
        output: 30,
        cache_read: 0.5,
        above: { tokens: 272000, input: 10, output: 45, cache_read: 1 },
      },
      'gpt-5.5-pro': {
        input: 30,
        output: 180,
        cache_read: 3,
        above: { tokens: 272000, input: 60, output: 270, cache_read: 6 },
      },
      o3: { input: 2, output: 8, cache_read: 0.5 },
      'o3-mini': { input: 1.1, output: 4.4, cache_read: 0.55 },
      'o3-pro': { input: 20, output: 80, cache_read: 20 },
      'o4-mini': { input: 1.1, output: 4.4, cache_read: 0.275 },
    },
  },
  {
    provider: 'Google',
    read_on: '2026-09-20',
    page: 'https://ai.google.dev/gemini-api/docs/pricing',
    source:
      'api-evangelist/gemini, plans/gemini-plans-pricing.yml; what it leaves out of Gemini 2.5: litellm, as above',
    prices: {
      'gemini-3.1-pro-preview': { input: 2, output: 12, above: { tokens: 200000, input: 4, output: 18 } },
      'gemini-3.5-flash': { input: 1.5, output: 9 },
      'gemini-2.5-pro': { input: 1.25, output: 10, above: { tokens: 200000, input: 2.5, output: 15 } },
      'gemini-2.5-flash': { input: 0.3, output: 2.5 },
      'gemini-2.5-flash-lite': { input: 0.1, output: 0.4 },
    },
  },
  {
    provider: 'Google',
    read_on: '2026-09-20',
    page: 'https://ai.google.dev/gemini-api/docs/pricing',
    source: 'api-evangelist/gemini; a price that holds until 2026-12-31, then twice as much',
    prices: {
      'gemini-3.8-flash': { input: 0.75, output: 3.75 },
    },
  },
  {
    provider: 'xAI',
    read_on: '2026-07-24',
    page: 'https://docs.x.ai/developers/models',
    source:
      'BerriAI/litellm, model_prices_and_context_window.json, as mirrored by Wei-Shaw/model-price-repo at f9ff147',
    prices: {
      'grok-4.3': { input: 1.25, output: 2.5, cache_read: 0.2 },
      'grok-4.20-0309-reasoning': { input: 1.25, output: 2.5, cache_read: 0.2 },
      'grok-4.20-0309-non-reasoning': { input: 1.25, output: 2.5, cache_read: 0.2 },
      'grok-build-0.1': { input: 1, output: 2, cache_read: 0.2 },
    },
  },
  {
    provider: 'xAI',
    read_on: '2026-09-29',
    page: 'https://docs.x.ai/developers/models',
    source: 'apidog.com/blog/how-to-use-grok-4-7-api',
    prices: {
      'grok-4.7': {
        input: 2,
        output: 6,
        cache_read: 0.5,
        above: { tokens: 199999, input: 4, output: 12, cache_read: 1 },
      },
    },
  },
  {
    provider: 'Mistral',
    read_on: '2026-05-22',
    page: 'https://mistral.ai/pricing',
    source: 'braintrustdata/braintrust-proxy, issue 802',
    prices: {
      'mistral-medium-3-5': { input: 1.5, output: 7.5, cache_read: 1.5 },
    },
  },
];

/** The prices of all sources. */
export const SHIPPED_PRICES: Readonly<Record<string, Price>> = Object.freeze(
  Object.assign({}, ...PRICE_SOURCES.map(({ prices }) => prices)) as Record<string, Price>,
);
