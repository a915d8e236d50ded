/**
 * An organization's subscriptions, derived from the payment processor's events (contract document 1; document 4,
 * "Billing"). Events arrive in any order and repeatedly, so each part of a subscription has the time of its state.
 * Pure; any thread.
 */

import { FREE_PLAN } from './plans.ts';

export const SUBSCRIPTION_STATES = [
  'none',
  'trialing',
  'active',
  'past_due',
  'canceled',
  'incomplete',
  'unpaid',
] as const;
type SubscriptionStatus = (typeof SUBSCRIPTION_STATES)[number];

type StoredStatus = Exclude<SubscriptionStatus, 'none'>;

/** The last state of the subscription object itself. */
interface ObjectState {
  status: StoredStatus;
  /** RFC 3339 */
  current_period_start: string | null;
  current_period_end: string | null;
  cancel_at_period_end: boolean;
  /** Time of this state. */
  as_of_s: number;
  /** Orders states of the same second: 0 for the creation, 1 for every other event. */
  rank: number;
}

/** A value and its time; a later value replaces it. */
interface Dated<Value> {
  value: Value;
  as_of_s: number;
}

/**
 * One subscription at the processor: the newest information from each kind of source, so that the order of the events
 * does not matter. Times are seconds since the epoch, as in the processor's events.
 */
export interface Subscription {
  id: string;
  /** '' while unknown. */
  org_id: string;
  customer: Dated<string> | null;
  object: ObjectState | null;
  /** Whether the subscription has ended. The processor never revives a canceled subscription. */
  is_ended: boolean;
  /** A plan's name: from the subscription's own price, and from orders or bills, which may be older. */
  priced_plan: Dated<string> | null;
  named_plan: Dated<string> | null;
  /** Time of the newest payment, and of the newest failed payment; null: none is known. */
  paid_s: number | null;
  failed_s: number | null;
  /** Time of the first event. Of two active subscriptions, the newer one counts. */
  first_seen_s: number;
}

/** What an event says about a subscription. Fields that the event lacks are absent. */
interface SubscriptionChange {
  id: string;
  customer: string | null;
  as_of_s: number;
  object?: Omit<ObjectState, 'as_of_s'>;
  priced_plan?: string | null;
  named_plan?: string | null;
  payment?: 'paid' | 'failed';
}

/** The subscription as bootstrap and /billing/subscription show it, without the cap, which follows from the plan. */
export interface EffectiveSubscription {
  plan: string;
  status: SubscriptionStatus;
  current_period_start: string | null;
  current_period_end: string | null;
  cancel_at_period_end: boolean;
}

/** Whether the processor charges until the subscription is cancelled. */
export function doesRenew(subscription: Subscription): boolean {
  const isLive = ['trialing', 'active', 'past_due', 'unpaid'].includes(statusOf(subscription));
  return isLive && subscription.object?.cancel_at_period_end !== true;
}

/**
 * Computes the state of a subscription after an event, which may be older than the known state. Of two events in the
 * same second, the one that arrived later counts, except that the creation of the subscription object never replaces a
 * later state of the object.
 */
export function mergeSubscription(
  before: Subscription | undefined,
  org_id: string,
  { id, as_of_s, customer, object, priced_plan, named_plan, payment }: SubscriptionChange,
): Subscription {
  const merged: Subscription =
    before === undefined
      ? {
          id,
          org_id,
          customer: null,
          object: null,
          is_ended: false,
          priced_plan: null,
          named_plan: null,
          paid_s: null,
          failed_s: null,
          first_seen_s: as_of_s,
        }
      : { ...before, org_id };
  merged.first_seen_s = Math.min(merged.first_seen_s, as_of_s);
  merged.customer = newer(merged.customer, customer, as_of_s);
  merged.priced_plan = newer(merged.priced_plan, priced_plan, as_of_s);
  merged.named_plan = newer(merged.named_plan, named_plan, as_of_s);
  if (object !== undefined) {
    merged.is_ended ||= object.status === 'canceled';
    const known = merged.object;
    if (
      known === null ||
      as_of_s > known.as_of_s ||
      (as_of_s === known.as_of_s && object.rank >= known.rank)
    ) {
      merged.object = { ...object, as_of_s };
      // The object already includes payments and failures of the same second.
      if (merged.paid_s === as_of_s) merged.paid_s = null;
      if (merged.failed_s === as_of_s) merged.failed_s = null;
    }
  }
  if (payment === 'paid') {
    merged.paid_s = Math.max(as_of_s, merged.paid_s ?? as_of_s);
    if (merged.failed_s === as_of_s) merged.failed_s = null;
  }
  if (payment === 'failed') merged.failed_s = Math.max(as_of_s, merged.failed_s ?? as_of_s);
  return merged;
}

function newer(
  known: Dated<string> | null,
  value: string | null | undefined,
  as_of_s: number,
): Dated<string> | null {
  if (value === null || value === undefined) return known;
  return known === null || as_of_s >= known.as_of_s ? { value, as_of_s } : known;
}

/** Computes the status that follows from everything known about a subscription. */
export function statusOf({ object, is_ended, paid_s, failed_s }: Subscription): StoredStatus {
  if (is_ended) return 'canceled';
  const isFailed = failed_s !== null && (paid_s === null || failed_s >= paid_s);
  const status = object?.status ?? 'incomplete';
  const at = object?.as_of_s ?? Number.NEGATIVE_INFINITY;
  if (isFailed && failed_s >= at) {
    // A first payment that fails starts no subscription; the object's status is then `incomplete`.
    return object === null || status === 'active' || status === 'trialing' ? 'past_due' : status;
  }
  const isPaid = paid_s !== null && paid_s >= at;
  return isPaid && (status === 'incomplete' || status === 'past_due') ? 'active' : status;
}

/** Finds the subscribed plan, whether it is paid or not; null if no event has named a plan yet. */
export function planOf({ priced_plan, named_plan }: Subscription): string | null {
  return (priced_plan ?? named_plan)?.value ?? null;
}

/** Statuses in which the subscription's plan applies; in all others the organization has the free plan. */
const PAYING: ReadonlySet<SubscriptionStatus> = new Set(['trialing', 'active', 'past_due']);

/**
 * Sorts the subscriptions that an organization ever had: those with a paying status first, then newer ones before older
 * ones.
 */
export function rankSubscriptions(subscriptions: readonly Subscription[]): Subscription[] {
  return [...subscriptions].sort(
    (a, b) =>
      Number(PAYING.has(statusOf(b))) - Number(PAYING.has(statusOf(a))) ||
      b.first_seen_s - a.first_seen_s ||
      (a.id < b.id ? 1 : -1),
  );
}

/**
 * Makes the view of the first subscription by {@link rankSubscriptions}; without a subscription, that of the free plan.
 */
export function effectiveSubscription(subscriptions: readonly Subscription[]): EffectiveSubscription {
  const [first] = rankSubscriptions(subscriptions);
  if (first === undefined)
    return {
      plan: FREE_PLAN,
      status: 'none',
      current_period_start: null,
      current_period_end: null,
      cancel_at_period_end: false,
    };
  const status = statusOf(first);
  return {
    plan: PAYING.has(status) ? (planOf(first) ?? FREE_PLAN) : FREE_PLAN,
    status,
    current_period_start: first.object?.current_period_start ?? null,
    current_period_end: first.object?.current_period_end ?? null,
    cancel_at_period_end: first.object?.cancel_at_period_end ?? false,
  };
}

/** The meaning of a webhook event. */
export interface BillingEvent {
  id: string;
  type: string;
  /** Organizations that the event names, the most reliable first. */
  org_ids: readonly string[];
  customer: string | null;
  change: SubscriptionChange | null;
}

/** Events that change something; all others are only acknowledged. */
export const HANDLED_EVENTS: ReadonlySet<string> = new Set([
  'checkout.session.completed',
  'customer.subscription.created',
  'customer.subscription.updated',
  'customer.subscription.deleted',
  'invoice.paid',
  'invoice.payment_failed',
]);

/** A JSON object of the processor, whose fields may be anything. */
type Json = Readonly<Record<string, unknown>>;

/**
 * Reads an event's object. Missing fields and wrong types are tolerated.
 * @param type one of {@link HANDLED_EVENTS}
 * @param object the event's object, or the fetched object
 * @param as_of_s time of the object's state
 * @param plans names of all plans
 */
export function readBillingEvent(
  { id, type, object, as_of_s }: { id: string; type: string; object: Json; as_of_s: number },
  plans: readonly string[],
): BillingEvent {
  const parent = record(record(object.parent).subscription_details);
  const metadata = [object.metadata, parent.metadata, record(object.subscription_details).metadata].map(
    record,
  );
  const org_ids = [...metadata.map((fields) => fields.org_id), object.client_reference_id]
    .map(text)
    .filter((found) => found !== null);
  const named_plan =
    metadata.map((fields) => text(fields.plan)).find((plan) => plan !== null && plans.includes(plan)) ?? null;
  const customer = idOf(object.customer);
  const event = { id, type, org_ids, customer };
  const base = { customer, as_of_s, named_plan };
  switch (type) {
    case 'checkout.session.completed': {
      const subscription = idOf(object.subscription);
      if (subscription === null) return { ...event, change: null };
      const isPaid = object.payment_status === 'paid' || object.payment_status === 'no_payment_required';
      return {
        ...event,
        change: { id: subscription, ...base, ...(isPaid ? { payment: 'paid' as const } : {}) },
      };
    }
    case 'invoice.paid':
    case 'invoice.payment_failed': {
      const subscription = idOf(object.subscription) ?? idOf(parent.subscription);
      if (subscription === null) return { ...event, change: null };
      const billed = named_plan ?? planOfLines(object, plans);
      const change = { id: subscription, ...base, named_plan: billed };
      if (type === 'invoice.paid') return { ...event, change: { ...change, payment: 'paid' } };
      // A failed first payment makes the subscription incomplete, not past due.
      const isFirst = object.billing_reason === 'subscription_create';
      return { ...event, change: isFirst ? change : { ...change, payment: 'failed' } };
    }
    default:
      return { ...event, change: readSubscription(type, object, base, plans) };
  }
}

function readSubscription(
  type: string,
  object: Json,
  base: Pick<SubscriptionChange, 'customer' | 'as_of_s' | 'named_plan'>,
  plans: readonly string[],
): SubscriptionChange | null {
  const id = text(object.id);
  if (id === null) return null;
  const items = list(record(object.items).data).map(record);
  const priced = items.map((item) => planOfPrice(record(item.price), plans)).find((plan) => plan !== null);
  // In newer versions of the processor's API, the item has the period.
  const start = seconds(object.current_period_start) ?? seconds(items[0]?.current_period_start);
  const end = seconds(object.current_period_end) ?? seconds(items[0]?.current_period_end);
  return {
    id,
    ...base,
    priced_plan: priced ?? null,
    object: {
      status: type === 'customer.subscription.deleted' ? 'canceled' : readStatus(object.status),
      current_period_start: start,
      current_period_end: end,
      cancel_at_period_end: object.cancel_at_period_end === true,
      // Of two events in the same second, the creation comes first.
      rank: type === 'customer.subscription.created' ? 0 : 1,
    },
  };
}

/**
 * Maps the processor's statuses to ours. Our names for `incomplete_expired` and `paused` differ. An unknown status
 * counts as `incomplete`.
 */
function readStatus(status: unknown): StoredStatus {
  switch (status) {
    case 'trialing':
    case 'active':
    case 'past_due':
    case 'canceled':
    case 'unpaid':
      return status;
    case 'incomplete_expired':
      return 'canceled';
    case 'paused':
      return 'unpaid';
    default:
      return 'incomplete';
  }
}

/**
 * Finds the plan of a price's `lookup_key`, which is a plan's name or `<plan>_…` (contract document 4, "Billing"); null
 * if no plan fits. If both `pro` and `pro_plus` fit, the longer name counts.
 */
export function planOfLookupKey(key: string, plans: readonly string[]): string | null {
  const fitting = plans.filter((plan) => key === plan || key.startsWith(`${plan}_`));
  return fitting.sort((a, b) => b.length - a.length)[0] ?? null;
}

function planOfPrice(price: Json, plans: readonly string[]): string | null {
  const key = text(price.lookup_key);
  const named = text(record(price.metadata).plan);
  return (key === null ? null : planOfLookupKey(key, plans)) ?? plans.find((plan) => plan === named) ?? null;
}

function planOfLines(invoice: Json, plans: readonly string[]): string | null {
  for (const line of list(record(invoice.lines).data)) {
    const plan = planOfPrice(record(record(line).price), plans);
    if (plan !== null) return plan;
  }
  return null;
}

function record(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Maximum length of a text from the processor; a longer one is ignored. */
const TEXT_MAX = 255;

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' && value.length <= TEXT_MAX && value.isWellFormed()
    ? value
    : null;
}

/** Reads the id of an object. The value is the id, or the whole object. null without a valid id. */
function idOf(value: unknown): string | null {
  return text(value) ?? text(record(value).id);
}

function seconds(value: unknown): string | null {
  const isTime = typeof value === 'number' && Number.isFinite(value) && Math.abs(value) < 8.64e12;
  return isTime ? new Date(value * 1_000).toISOString() : null;
}
