/** Subscription, checkout, portal and the payment processor's webhooks (document 1; decisions, Billing). Data. */
import { z } from 'zod';
import { SUBSCRIPTION_STATES } from '../domain/billing.ts';
import { LOOKUP_KEY_CHARACTERS, USAGE_DAYS_MAX } from '../limits.ts';
import { endpoint, refusal } from './endpoint.ts';
import { integer, reference, text } from './fields.ts';

export const subscriptionOut = z
  .object({
    plan: z.string(),
    status: z.enum(SUBSCRIPTION_STATES),
    current_period_start: z.string().nullable(),
    current_period_end: z.string().nullable(),
    cancel_at_period_end: z.boolean(),
    intervention_cap: z.number().int().nullable(),
  })
  .meta({ id: 'Subscription' });

export const interventionUsageOut = z
  .object({
    used: z.number().int(),
    cap: z.number().int().nullable(),
    remaining: z.number().int().nullable(),
    period_start: z.string(),
    period_end: z.string(),
    series: z.array(z.object({ date: z.string(), injections: z.number().int() })).optional(),
  })
  .meta({ id: 'InterventionUsage' });

const webhookOut = z
  .object({ received: z.literal(true), handled: z.boolean(), duplicate: z.boolean() })
  .meta({ id: 'WebhookReceived' });

const org = z.object({ org_id: reference().optional() });

export const BILLING = {
  getSubscription: endpoint({
    id: 'get_subscription',
    method: 'GET',
    path: '/billing/subscription',
    auth: 'user',
    summary: "The organization's plan and what it allows",
    tag: 'billing',
    query: org,
    replies: { 200: { description: 'The subscription; status none without one', schema: subscriptionOut } },
  }),
  interventionUsage: endpoint({
    id: 'intervention_usage',
    method: 'GET',
    path: '/billing/intervention-usage',
    auth: 'user',
    summary: "This month's interventions against the plan's cap",
    tag: 'billing',
    query: z.object({
      org_id: reference().optional(),
      days: integer({ ge: 0, le: USAGE_DAYS_MAX }).default(0),
    }),
    replies: { 200: { description: 'With days above 0 also by day', schema: interventionUsageOut } },
  }),
  createCheckout: endpoint({
    id: 'create_checkout_session',
    method: 'POST',
    path: '/billing/create-checkout-session',
    auth: 'user',
    summary: 'A page on which to subscribe to a plan',
    tag: 'billing',
    query: z.object({
      lookup_key: text({ min: 1, max: LOOKUP_KEY_CHARACTERS }),
      org_id: reference().optional(),
    }),
    replies: {
      200: {
        description: 'Where to go',
        schema: z.object({ url: z.string(), session_id: z.string() }).meta({ id: 'CheckoutSession' }),
      },
      503: refusal('Billing is not configured, or the processor does not answer'),
    },
  }),
  createPortal: endpoint({
    id: 'create_portal_session',
    method: 'POST',
    path: '/billing/create-portal-session',
    auth: 'user',
    summary: 'A page on which to manage the subscription',
    tag: 'billing',
    query: org,
    replies: {
      200: {
        description: 'Where to go',
        schema: z.object({ url: z.string() }).meta({ id: 'PortalSession' }),
      },
      409: refusal('Nothing was subscribed to yet'),
      503: refusal('Billing is not configured, or the processor does not answer'),
    },
  }),
} as const;

/** Their callers sign the body; nothing of it is looked at before the signature holds. */
export const WEBHOOKS = {
  webhook: endpoint({
    id: 'billing_webhook',
    method: 'POST',
    path: '/billing/webhook',
    auth: 'open',
    any_host: true,
    summary: 'Events of the payment processor, with their objects',
    tag: 'billing',
    replies: {
      200: { description: 'Received', schema: webhookOut },
      400: refusal('No signature that holds, or no event of this kind'),
      413: refusal('The body is larger than MAX_BODY_BYTES'),
      503: refusal('Not configured, or the processor does not answer: send it again'),
    },
  }),
  thinWebhook: endpoint({
    id: 'billing_webhook_thin',
    method: 'POST',
    path: '/billing/webhook/thin',
    auth: 'open',
    any_host: true,
    summary: 'Events of the payment processor, whose objects are fetched',
    tag: 'billing',
    replies: {
      200: { description: 'Received', schema: webhookOut },
      400: refusal('No signature that holds, or no event of this kind'),
      413: refusal('The body is larger than MAX_BODY_BYTES'),
      503: refusal('Not configured, or the processor does not answer: send it again'),
    },
  }),
} as const;
