/** What a model's tokens cost, as the operator says it (GW_PRICES). Pure; any thread. */
import type { TokenUsage } from './exchange.ts';

/** Dollars a million tokens; without a price for the cache, a tenth of the input's to read and five quarters to write. */
export interface Price {
  readonly input: number;
  readonly output: number;
  readonly cache_read?: number | undefined;
  readonly cache_write?: number | undefined;
}

/** By model. */
export type Prices = Readonly<Record<string, Price>>;

/** A model's price: its own, or that of the longest name that it goes on from (`name` for `name-20250514`). */
export function findPrice(prices: Prices, model: string): Price | null {
  let best = '';
  for (const name of Object.keys(prices)) {
    const isIts = model === name || (model.startsWith(name) && /^[-@:]/.test(model.slice(name.length)));
    if (isIts && name.length > best.length) best = name;
  }
  return best === '' ? null : prices[best]!;
}

export function cacheReadOf({ input, cache_read = 0.1 * input }: Price): number {
  return cache_read;
}

export function cacheWriteOf({ input, cache_write = 1.25 * input }: Price): number {
  return cache_write;
}

/**
 * Dollars for one answer; null where the provider did not tell its tokens.
 * @param usage its input without what a cache held
 */
export function costOfUsage(usage: TokenUsage, price: Price): number | null {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = usage;
  if (input_tokens === null || output_tokens === null) return null;
  const cached =
    (cache_read_tokens ?? 0) * cacheReadOf(price) + (cache_write_tokens ?? 0) * cacheWriteOf(price);
  return (input_tokens * price.input + cached + output_tokens * price.output) / 1_000_000;
}
