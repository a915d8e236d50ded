/**
 * The tier of service in a provider's words. Prices depend on it. Pure; runs where stored copies are read, and on the
 * student's thread.
 */
import type { TokenUsage } from '../domain/exchange.ts';

/** Maximum length of a tier's name. A longer one is cut, and has no price. */
const TIER_CHARS = 64;

/** Words for the tier that has a model's list price, and words of answers that do not say which tier it was. */
const STANDARD = new Set([
  '',
  'auto',
  'default',
  'standard',
  'standard_only',
  'on_demand',
  'unspecified',
  'traffic_type_unspecified',
  // Words of `inference_geo`; models without that choice give `not_available`.
  'global',
  'not_available',
]);

/**
 * Names the tier: the provider's word in lower case, without the prefix of Google's enums (`ON_DEMAND_FLEX`,
 * `SERVICE_TIER_FLEX`). Two different words are joined (`priority+fast`), because each changes the price.
 * @param words values of the fields that may name a tier
 * @returns undefined for the standard tier, and if no field names one
 */
export function tierOf(...words: unknown[]): string | undefined {
  const names = new Set<string>();
  for (const word of words) {
    if (typeof word !== 'string') continue;
    const name = word
      .trim()
      .toLowerCase()
      .replace(/^(?:on_demand|service_tier)_/, '');
    if (!STANDARD.has(name)) names.add(name);
  }
  return names.size === 0 ? undefined : [...names].join('+').slice(0, TIER_CHARS);
}

/** Notes the tier in an answer's usage; see {@link tierOf}. */
export function noteTier(usage: TokenUsage, ...words: unknown[]): void {
  const tier = tierOf(...words);
  if (tier !== undefined) usage.tier = tier;
}
