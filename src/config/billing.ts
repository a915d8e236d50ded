/** The payment processor and the plans. Main thread. */
import { z } from 'zod';
import { DEFAULT_PLAN_CAPS, type PlanCaps } from '../domain/plans.ts';
import { origin, parseJson, secret, type Values, type VariableTable } from './values.ts';

export interface BillingConfig {
  /** Secrets, null when unset: never print. */
  readonly secret_key: string | null;
  readonly webhook_secret: string | null;
  /** null: not set; `webhook_secret` also applies to thin events. */
  readonly webhook_thin_secret: string | null;
  /** null: not set; the processor's own address is used. */
  readonly api_base: string | null;
  /** Interventions per month by plan; null: no cap. */
  readonly plan_caps: PlanCaps;
}

const planCaps = z
  .string()
  .transform((text, context): PlanCaps => {
    const parsed = z.record(z.string().min(1), z.int().min(0).nullable()).safeParse(parseJson(text));
    if (parsed.success) return Object.freeze(parsed.data);
    context.addIssue('not caps');
    return z.NEVER;
  })
  .describe(
    'must be a JSON object of plans, each with a whole number from 0, or null: {"free": 50000, "pro": null}',
  );

export const BILLING_VARIABLES = {
  PLAN_CAPS: [planCaps, JSON.stringify(DEFAULT_PLAN_CAPS)],
  STRIPE_SECRET_KEY: [secret, undefined],
  STRIPE_WEBHOOK_SECRET: [secret, undefined],
  STRIPE_WEBHOOK_THIN_SECRET: [secret, undefined],
  STRIPE_API_BASE: [origin('https://api.stripe.com'), undefined],
} as const satisfies VariableTable;

export function readBilling(v: Values<typeof BILLING_VARIABLES>): BillingConfig {
  return Object.freeze({
    secret_key: v.STRIPE_SECRET_KEY,
    webhook_secret: v.STRIPE_WEBHOOK_SECRET,
    webhook_thin_secret: v.STRIPE_WEBHOOK_THIN_SECRET,
    api_base: v.STRIPE_API_BASE,
    plan_caps: v.PLAN_CAPS,
  });
}
