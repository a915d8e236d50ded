/** The cost of a captured exchange, and how certain it is. Pure; capture reader, command line. */
import { hasFailed } from '../domain/golden.ts';
import { type CostBasis, costOfUsage, findPrice, type Prices } from '../domain/price.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import type { ListedExchange } from './exchange-source.ts';

/** What an exchange cost. */
interface ExchangeCost {
  /** Dollars; null when nothing is charged, or the cost is unknown. */
  usd: number | null;
  /** null without a cost. */
  basis: CostBasis | null;
  /** true: something is charged, but the model has no price at the answer's tier, or its tokens are unknown. */
  is_unknown: boolean;
}

const FREE: ExchangeCost = { usd: null, basis: null, is_unknown: false };
const UNKNOWN: ExchangeCost = { usd: null, basis: null, is_unknown: true };

/**
 * Prices an exchange. Nothing is charged for an exchange that is not a turn, that the student answered, or that failed
 * without reported output tokens.
 */
export function priceExchange(exchange: ListedExchange, prices: Prices): ExchangeCost {
  const { kind, shape, served_by, model, usage } = exchange;
  if (kind !== 'turn' || served_by === 'student') return FREE;
  if (usage.output_tokens === null && hasFailed(exchange)) return FREE;
  const price = model === null ? null : findPrice(prices, model, usage.tier);
  const usd = price === null ? null : costOfUsage(readFreshUsage(shape, usage), price);
  if (price === null || usd === null) return UNKNOWN;
  const basis = price.guessed ? 'guessed_price' : usage.estimated ? 'estimated_tokens' : 'told';
  return { usd, basis, is_unknown: false };
}
