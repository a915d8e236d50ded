/** What a captured exchange cost, by the operator's prices. Pure; capture reader. */
import { hasFailed } from '../domain/golden.ts';
import { costOfUsage, findPrice, type Prices } from '../domain/price.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import type { ListedExchange } from './exchange-source.ts';

/**
 * @returns dollars; null for what nobody is charged for: no turn, one without an answer, one of the student; `unknown` where
 * the model has no price or the provider did not tell its tokens
 */
export function costOfExchange(exchange: ListedExchange, prices: Prices): number | 'unknown' | null {
  const { kind, shape, served_by, model, usage } = exchange;
  if (kind !== 'turn') return null;
  if (served_by === 'student') return null;
  if (usage.output_tokens === null && hasFailed(exchange)) return null;
  const price = model === null ? null : findPrice(prices, model);
  if (price === null) return 'unknown';
  return costOfUsage(readFreshUsage(shape, usage), price) ?? 'unknown';
}
