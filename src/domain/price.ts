/** The price of a model's tokens, from GW_PRICES or the built-in table (price-table.ts). Pure; any thread. */
import type { TokenUsage } from './exchange.ts';

/** Dollars per million tokens. */
interface Rates {
  readonly input: number;
  readonly output: number;
  /** Default: a tenth of the input price. */
  readonly cache_read?: number | undefined;
  /** Default: 1.25 times the input price. */
  readonly cache_write?: number | undefined;
  /** For cache entries that are kept for an hour. Default: twice the input price. */
  readonly cache_write_1h?: number | undefined;
}

/** The rates of one tier. */
interface TierPrice extends Rates {
  /** Other rates for requests whose input, including the cache, exceeds this many tokens. */
  readonly above?: (Rates & { readonly tokens: number }) | undefined;
}

/** What one model costs at the standard tier. */
export interface Price extends TierPrice {
  /** Prices at other tiers of service by name: a factor of all rates of the standard tier, or the tier's own rates. */
  readonly tiers?: Readonly<Record<string, number | TierPrice>> | undefined;
}

/** The part of a tier's name that says that Anthropic computed the answer in the US only (`usage.inference_geo`). */
const US_TIER = 'us';
/**
 * The factor of the US tier for all rates, the same for all models that offer it (platform.claude.com, "Data
 * residency").
 */
const US_FACTOR = 1.1;

/** Prices by model name; a name may contain `*` for any characters. */
export type Prices = Readonly<Record<string, Price>>;

/** A price for a model at a tier. */
export type FoundPrice = TierPrice & {
  /** The model itself has no price. This is the price of a model whose name is a prefix of its name. */
  readonly guessed?: true;
};

/**
 * The basis of a cost. `told`: the provider reported the tokens, and the model has a price. The other words say why
 * the cost is an estimate.
 */
export const COST_BASES = ['told', 'guessed_price', 'estimated_tokens'] as const;
export type CostBasis = (typeof COST_BASES)[number];

/** A model's own price, or a guess. */
type ModelPrice = Price & Pick<FoundPrice, 'guessed'>;

/** Found prices by model, for each price table. */
const found = new WeakMap<Prices, Map<string, ModelPrice | null>>();
/** Maximum number of models remembered per table; when exceeded, the table's models are forgotten. */
const REMEMBERED_MODELS = 1_024;

/**
 * Finds the price of a model at a tier of service.
 * @param tier absent: the standard tier. Prices of other tiers differ by model and are not derived from the standard
 *   price, except for computation in the US: the price of `us` follows from the standard price, that of `x+us` from the
 *   price of `x`
 * @returns null if the model has no price, not even a guessed one, or none at this tier
 */
export function findPrice(prices: Prices, model: string, tier?: string): FoundPrice | null {
  const price = findModel(prices, model);
  if (price === null || tier === undefined) return price;
  const atTier = priceAtTier(price, tier);
  return price.guessed && atTier !== null ? { ...atTier, guessed: true } : atTier;
}

function priceAtTier(price: Price, tier: string): TierPrice | null {
  if (price.tiers !== undefined && Object.hasOwn(price.tiers, tier)) {
    const told = price.tiers[tier]!;
    return typeof told === 'number' ? multiplyPrice(price, told) : told;
  }
  const parts = tier.split('+');
  if (parts.at(-1) !== US_TIER) return null;
  const elsewhere = parts.length === 1 ? price : priceAtTier(price, parts.slice(0, -1).join('+'));
  return elsewhere && multiplyPrice(elsewhere, US_FACTOR);
}

function multiplyPrice({ above, ...rates }: TierPrice, factor: number): TierPrice {
  return {
    ...multiplyRates(rates, factor),
    above: above && { tokens: above.tokens, ...multiplyRates(above, factor) },
  };
}

function multiplyRates(
  { input, output, cache_read, cache_write, cache_write_1h }: Rates,
  factor: number,
): Rates {
  const times = (rate: number | undefined): number | undefined => rate && rate * factor;
  return {
    input: input * factor,
    output: output * factor,
    cache_read: times(cache_read),
    cache_write: times(cache_write),
    cache_write_1h: times(cache_write_1h),
  };
}

/**
 * Finds a model's price: by its exact name, otherwise by a name that {@link listNames} derives, otherwise by the
 * longest matching pattern. If no pattern matches, the price is a guess, and marked as such: that of the longest name
 * that is the beginning of the exact or a derived name and is followed there by `-`, `@` or `:` (`gpt-5` for
 * `gpt-5-nano`, not for `gpt-5.1`). null if there is no such name.
 */
function findModel(prices: Prices, model: string): ModelPrice | null {
  let known = found.get(prices);
  if (known === undefined) {
    known = new Map();
    found.set(prices, known);
  }
  let price = known.get(model);
  if (price !== undefined) return price;
  price = searchPrice(prices, model);
  if (known.size >= REMEMBERED_MODELS) known.clear();
  known.set(model, price);
  return price;
}

function searchPrice(prices: Prices, model: string): ModelPrice | null {
  const names = listNames(model);
  // Routers write claude-sonnet-4.5 for claude-sonnet-4-5.
  for (const name of [...names, ...names.map((spelled) => spelled.replace(/(\d)\.(?=\d)/g, '$1-'))])
    if (Object.hasOwn(prices, name)) return prices[name]!;
  let pattern = '';
  let beginning = '';
  for (const name of Object.keys(prices)) {
    if (name.includes('*')) {
      if (name.length > pattern.length && names.some((spelled) => fitsPattern(spelled, name))) pattern = name;
    } else if (name.length > beginning.length && names.some((spelled) => goesOnFrom(spelled, name))) {
      beginning = name;
    }
  }
  if (pattern !== '') return prices[pattern]!;
  return beginning === '' ? null : { ...prices[beginning]!, guessed: true };
}

function goesOnFrom(model: string, name: string): boolean {
  return model.startsWith(name) && /^[-@:]/.test(model.slice(name.length));
}

/** Whether the name matches the pattern, where `*` matches any characters. */
function fitsPattern(name: string, pattern: string): boolean {
  const parts = pattern.split('*');
  const last = parts.pop()!;
  const first = parts.shift()!;
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length)
    return false;
  let at = first.length;
  for (const part of parts) {
    const place = name.indexOf(part, at);
    if (place < 0) return false;
    at = place + part.length;
  }
  return at <= name.length - last.length;
}

/** Vendors that may precede a model's name and `/`: routers, and clouds with the same prices. */
const PROVIDERS =
  /^(?:(?:openrouter|openai|azure|azure_ai|anthropic|google|gemini|vertex_ai|vertex|models|x-ai|xai|mistral|mistralai|deepseek|bedrock|converse|invoke)\/)+/;
/** Bedrock's names: a region, the maker, and a version after the model. */
const BEDROCK =
  /^(?:(?:us|eu|apac|jp|au|ca|us-gov|global)\.)?(?:anthropic|amazon|mistral|meta|cohere|deepseek|openai)\./;
const BEDROCK_VERSION = /-v\d+(?::\d+)?$/;
/** Release date in a model's name: `-20250807`, `-2025-08-07`, `@20250807`, `-0613`; also `-latest` and `@default`. */
const EDITION =
  /(?:[-@]20\d{6}|-20\d\d-\d\d-\d\d|-(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|-latest|@default|@latest)$/;

/**
 * Lists the names under which the model may be priced, the most exact first: the name as written, then without the
 * vendor (`openai/gpt-5`, `us.anthropic.claude-…-v1:0`), then without the release date.
 */
function listNames(model: string): string[] {
  const names = new Set([model]);
  // An ARN of an inference profile ends with the model's name.
  let name = model.startsWith('arn:') ? model.slice(model.lastIndexOf('/') + 1) : model;
  name = name.toLowerCase().replace(/^publishers\/[\w-]+\//, '');
  name = name.replace(PROVIDERS, '');
  names.add(name);
  if (BEDROCK.test(name)) {
    name = name.replace(BEDROCK, '').replace(BEDROCK_VERSION, '');
    names.add(name);
  }
  return [...names.add(name.replace(EDITION, ''))];
}

function cacheReadOf({ input, cache_read = 0.1 * input }: Rates): number {
  return cache_read;
}

function cacheWriteOf({ input, cache_write = 1.25 * input }: Rates): number {
  return cache_write;
}

/** Finds the rates for a request with this number of input tokens, including those in the cache. */
function ratesFor(price: TierPrice, input_tokens: number): Rates {
  return price.above !== undefined && input_tokens > price.above.tokens ? price.above : price;
}

/**
 * Computes the cost of one answer in dollars; null if the tokens are unknown.
 * @param usage the input excludes cached tokens
 * @param price at the usage's tier
 */
export function costOfUsage(usage: TokenUsage, price: FoundPrice): number | null {
  const { input_tokens, output_tokens } = usage;
  if (input_tokens === null || output_tokens === null) return null;
  const read = usage.cache_read_tokens ?? 0;
  const written = usage.cache_write_tokens ?? 0;
  const rates = ratesFor(price, input_tokens + read + written);
  const written1h = Math.min(written, usage.cache_write_1h_tokens ?? 0);
  const cached =
    read * cacheReadOf(rates) +
    (written - written1h) * cacheWriteOf(rates) +
    written1h * (rates.cache_write_1h ?? 2 * rates.input);
  return (input_tokens * rates.input + cached + output_tokens * rates.output) / 1_000_000;
}
