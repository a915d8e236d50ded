/**
 * Plans and the interventions that each allows per month (contract document 4, "Usage and billing"). Pure; any thread.
 */

/** Interventions per UTC calendar month by plan; null means no cap. */
export type PlanCaps = Readonly<Record<string, number | null>>;

/** The default of PLAN_CAPS. */
export const DEFAULT_PLAN_CAPS: PlanCaps = { free: 50_000, pro: 500_000, enterprise: null };

/** The plan of an organization without a subscription. */
export const FREE_PLAN = 'free';

/** Looks up an organization's plan. */
export interface PlanReader {
  planOf(orgId: string): string | Promise<string>;
}

/**
 * Finds the cap of a plan; null: no cap. An unknown plan has the cap of the free plan; if there is no free plan, it has
 * no cap.
 */
export function capOf(caps: PlanCaps, plan: string): number | null {
  if (Object.hasOwn(caps, plan)) return caps[plan]!;
  return Object.hasOwn(caps, FREE_PLAN) ? caps[FREE_PLAN]! : null;
}
