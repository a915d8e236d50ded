/** Subscription, checkout, portal and the payment processor's webhooks (document 1; document 4, "Billing"). Data. */
import { z } from 'zod';
import { SUBSCRIPTION_STATES } from '../domain/billing.ts';
import { USAGE_DAYS_MAX } from '../domain/usage.ts';
import { endpoint, refusal } from './endpoint.ts';
import { integer, reference, text } from './fields.ts';

const LOOKUP_KEY_CHARACTERS = 200;

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

const interventionUsageOut = z
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
    permission: 'billing.read',
    summary: "The organization's plan and what it allows",
    tag: 'billing',
    query: org,
    replies: {
      200: {
        description: 'The subscription; its status is `none` if there is no subscription',
        schema: subscriptionOut,
      },
    },
  }),
  interventionUsage: endpoint({
    id: 'intervention_usage',
    method: 'GET',
    path: '/billing/intervention-usage',
    auth: 'user',
    permission: 'billing.read',
    summary: "This month's interventions against the plan's cap",
    tag: 'billing',
    query: z.object({
      org_id: reference().optional(),
      days: integer({ ge: 0, le: USAGE_DAYS_MAX }).default(0),
    }),
    replies: {
      200: { description: 'The usage; also by day if `days` is above 0', schema: interventionUsageOut },
    },
  }),
  createCheckout: endpoint({
    id: 'create_checkout_session',
    method: 'POST',
    path: '/billing/create-checkout-session',
    auth: 'user',
    permission: 'billing.change',
    summary: 'A page on which to subscribe to a plan',
    tag: 'billing',
    query: z.object({
      lookup_key: text({ max: LOOKUP_KEY_CHARACTERS }),
      org_id: reference().optional(),
    }),
    replies: {
      200: {
        description: 'The address of the page',
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
    permission: 'billing.change',
    summary: 'A page on which to manage the subscription',
    tag: 'billing',
    query: org,
    replies: {
      200: {
        description: 'The address of the page',
        schema: z.object({ url: z.string() }).meta({ id: 'PortalSession' }),
      },
      409: refusal('The organization has no subscription yet'),
      503: refusal('Billing is not configured, or the processor does not answer'),
    },
  }),
} as const;

/** Operations whose callers sign the body. No part of the body is read before the signature is verified. */
export const WEBHOOKS = {
  webhook: endpoint({
    id: 'billing_webhook',
    method: 'POST',
    path: '/billing/webhook',
    auth: 'open',
    any_host: true,
    summary: 'Receives events of the payment processor that contain their objects',
    tag: 'billing',
    replies: {
      200: { description: 'Received', schema: webhookOut },
      400: refusal('The signature is missing or invalid, or the body is not an event'),
      413: refusal('The body is larger than MAX_BODY_BYTES'),
      503: refusal(
        'Billing is not configured, the payment processor does not answer, or another copy of the event is being handled: send the event again',
      ),
    },
  }),
  thinWebhook: endpoint({
    id: 'billing_webhook_thin',
    method: 'POST',
    path: '/billing/webhook/thin',
    auth: 'open',
    any_host: true,
    summary: 'Receives events of the payment processor whose objects must be fetched',
    tag: 'billing',
    replies: {
      200: { description: 'Received', schema: webhookOut },
      400: refusal('The signature is missing or invalid, or the body is not an event'),
      413: refusal('The body is larger than MAX_BODY_BYTES'),
      503: refusal(
        'Billing is not configured, the payment processor does not answer, or another copy of the event is being handled: send the event again',
      ),
    },
  }),
} as const;
