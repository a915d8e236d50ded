/** Plans and how many interventions each allows in a month (decisions, Usage and billing). Pure; any thread. */

/** By plan: interventions in a UTC calendar month; null is no cap. */
export type PlanCaps = Readonly<Record<string, number | null>>;

/** The default of PLAN_CAPS. */
export const DEFAULT_PLAN_CAPS: PlanCaps = { free: 50_000, pro: 500_000, enterprise: null };

/** The plan of an organization without a subscription. */
export const FREE_PLAN = 'free';

/** Says which plan an organization is on. */
export interface PlanReader {
  planOf(orgId: string): string | Promise<string>;
}

/**
 * @returns the plan's cap; a plan without a cap has the free plan's, and without that nothing is capped
 */
export function capOf(caps: PlanCaps, plan: string): number | null {
  if (Object.hasOwn(caps, plan)) return caps[plan]!;
  return Object.hasOwn(caps, FREE_PLAN) ? caps[FREE_PLAN]! : null;
}
