/**
 * Handlers of `contract/billing.ts`: subscription and checkout for people, webhooks for the payment processor. Server
 * threads.
 */
import type { z } from 'zod';
import type { PaymentProcessor, ProcessorEvent, WebhookVerifier } from '../billing/processor.ts';
import { type BILLING, type subscriptionOut, WEBHOOKS } from '../contract/billing.ts';
import { findEmailFault } from '../contract/email.ts';
import { type ApiReply, type ApiRequest, type ApiRoute, jsonReply } from '../contract/route.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import {
  type BillingEvent,
  HANDLED_EVENTS,
  planOf,
  planOfLookupKey,
  readBillingEvent,
  type Subscription,
  statusOf,
} from '../domain/billing.ts';
import { capOf, type PlanCaps } from '../domain/plans.ts';
import { CatalogueError } from '../errors.ts';
import { BILLING_REQUEST_MS } from '../limits.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import type { SharedLocks } from '../std/shared-locks.ts';
import { readInterventionSeries, readInterventions } from '../storage/accounts/usage.ts';
import type { AccountReads } from '../storage/ports/accounts.ts';
import type { Stores } from '../storage/ports/stores.ts';
import { auditActor, chooseOrganization } from './access.ts';

interface BillingServices {
  stores: Stores;
  plan_caps: PlanCaps;
  /** null: STRIPE_SECRET_KEY is not set. */
  processor: PaymentProcessor | null;
  webhooks: WebhookVerifier;
  /** Locks by event id: concurrent copies of an event, on any thread, are handled one at a time. */
  event_locks: SharedLocks;
  clock?: Clock;
}

export function billingHandlers({
  stores,
  plan_caps,
  processor,
}: BillingServices): UserHandlersOf<typeof BILLING> {
  const { accounts } = stores;
  return {
    getSubscription: ({ user, query }) => {
      const { org_id } = chooseOrganization(accounts, user, query.org_id, 'billing.read');
      return { body: showSubscription(accounts, org_id, plan_caps) };
    },

    interventionUsage: async ({ user, query, now_ms }) => {
      const { org_id } = chooseOrganization(accounts, user, query.org_id, 'billing.read');
      const cap = capOf(plan_caps, accounts.subscriptions.effectiveOf(org_id).plan);
      const now = new Date(now_ms);
      const [start, end] = [0, 1].map((month) => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + month));
      const used = await readInterventions(stores, org_id, start!, end!);
      return {
        body: {
          used,
          cap,
          remaining: cap === null ? null : Math.max(0, cap - used),
          period_start: new Date(start!).toISOString(),
          period_end: new Date(end!).toISOString(),
          ...(query.days > 0
            ? { series: await readInterventionSeries(stores, org_id, query.days, now_ms) }
            : {}),
        },
      };
    },

    createCheckout: async ({ user, query, request, now_ms }) => {
      const { org_id } = chooseOrganization(accounts, user, query.org_id, 'billing.change');
      if (processor === null) throw new CatalogueError('unavailable', 'Billing is not configured');
      const plan = planOfLookupKey(query.lookup_key, Object.keys(plan_caps));
      if (plan === null) throw new CatalogueError('not_found', 'No plan has this lookup_key');
      const session = await processor.createCheckout({
        org_id,
        plan,
        lookup_key: query.lookup_key,
        customer: accounts.subscriptions.customerOf(org_id) ?? null,
        // The payment processor rejects invalid addresses.
        email: findEmailFault(user.email) === null ? user.email : null,
      });
      await accounts.transact((tx) =>
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id,
          action: 'billing.checkout',
          target: session.session_id,
          after: { lookup_key: query.lookup_key },
        }),
      );
      return { body: session };
    },

    createPortal: async ({ user, query }) => {
      const { org_id } = chooseOrganization(accounts, user, query.org_id, 'billing.change');
      if (processor === null) throw new CatalogueError('unavailable', 'Billing is not configured');
      const customer = accounts.subscriptions.customerOf(org_id);
      if (customer === undefined)
        throw new CatalogueError('conflict', 'This organization has not subscribed to anything yet');
      return { body: await processor.createPortal(customer) };
    },
  };
}

/** Routes for webhooks; the signature is their credential. */
export function webhookRoutes(services: BillingServices): ApiRoute[] {
  return [
    { endpoint: WEBHOOKS.webhook, handle: (request) => receive(services, request, 'full') },
    { endpoint: WEBHOOKS.thinWebhook, handle: (request) => receive(services, request, 'thin') },
  ];
}

async function receive(
  services: BillingServices,
  request: ApiRequest,
  kind: 'full' | 'thin',
): Promise<ApiReply> {
  const event = services.webhooks.verify(request.body, request.headers.get('stripe-signature'), kind);
  if (!HANDLED_EVENTS.has(event.type)) return answer(false);
  // Read the address before waiting, because it is not available after the client has disconnected.
  const { address } = request;
  const reply = await services.event_locks.hold(event.id, BILLING_REQUEST_MS, () =>
    handle(services, event, address),
  );
  if (reply === null) throw new CatalogueError('unavailable', 'Another copy of this event is being handled');
  return reply;
}

function answer(handled: boolean, duplicate = false): ApiReply {
  return jsonReply(200, { received: true, handled, duplicate });
}

/**
 * Handles an event. For an event that was handled before, returns the recorded result without
 * fetching anything.
 */
async function handle(
  { stores: { accounts }, plan_caps, processor, clock = systemClock }: BillingServices,
  event: ProcessorEvent,
  address: string,
): Promise<ApiReply> {
  const known = accounts.subscriptions.findOutcome(event.id);
  if (known !== undefined) return answer(known, true);
  const fetchedAtS = Math.floor(clock.wallMs() / 1_000);
  const object = await objectOf(event, processor);
  if (object === null) return answer(false);
  const { id, type } = event;
  // A fetched subscription is at least as recent as the start of the fetch. Other objects have the time of their event.
  const isState = event.object.kind === 'thin' && type.startsWith('customer.subscription.');
  const as_of_s = isState ? Math.max(event.created_s, fetchedAtS) : event.created_s;
  const read = readBillingEvent({ id, type, object, as_of_s }, Object.keys(plan_caps));
  await cancelForNobody(accounts, processor, read);
  const nowMs = clock.wallMs();
  const applied = await accounts.transact((tx) => {
    const outcome = tx.subscriptions.apply(
      read,
      (org_id) => tx.organizations.find(org_id) !== undefined,
      nowMs,
    );
    const { org_id, before, after } = outcome;
    if (org_id !== null && after !== null)
      tx.audit.add({ type: 'stripe', id, address }, nowMs, {
        org_id,
        action: `billing.${type}`,
        target: after.id,
        before: before === null ? null : describeSubscription(before),
        after: describeSubscription(after),
      });
    return outcome;
  });
  return answer(applied.handled, applied.duplicate);
}

/**
 * Cancels a subscription that began after its organization was deleted. Otherwise the subscription
 * could be neither used nor cancelled. Does nothing for other events, and without a payment processor.
 */
async function cancelForNobody(
  accounts: AccountReads,
  processor: PaymentProcessor | null,
  { type, org_ids, change }: BillingEvent,
): Promise<void> {
  const begins = type === 'checkout.session.completed' || type === 'customer.subscription.created';
  if (!begins || change === null || processor === null) return;
  // Cancel only for organizations that were deleted from this service. Unknown organizations may belong to
  // other services that share the account at the payment processor.
  if (org_ids.some((org_id) => accounts.deletions.wasDeleted({ org_id, project_id: null })))
    await processor.cancelSubscription(change.id);
}

async function objectOf(
  { type, object }: ProcessorEvent,
  processor: PaymentProcessor | null,
): Promise<Readonly<Record<string, unknown>> | null> {
  if (object.kind === 'full') return object.fields;
  if (processor === null) throw new CatalogueError('unavailable', 'Billing is not configured');
  // Decide by the event type, because `object` of the event may have another type.
  const kind = type.startsWith('customer.subscription.')
    ? 'customer.subscription'
    : type.startsWith('invoice.')
      ? 'invoice'
      : 'checkout.session';
  return object.id === '' ? null : processor.fetchObject(kind, object.id);
}

/** Describes the organization's subscription, with the intervention cap of its plan. */
export function showSubscription(
  accounts: AccountReads,
  org_id: string,
  caps: PlanCaps,
): z.output<typeof subscriptionOut> {
  const effective = accounts.subscriptions.effectiveOf(org_id);
  return { ...effective, intervention_cap: capOf(caps, effective.plan) };
}

function describeSubscription(subscription: Subscription) {
  const cancel_at_period_end = subscription.object?.cancel_at_period_end ?? false;
  return { status: statusOf(subscription), plan: planOf(subscription), cancel_at_period_end };
}
