/**
 * What an organization has subscribed to, out of what the payment processor tells (document 1; decisions, Billing).
 * Events come in any order and more than once: each subscription remembers of when its state is. Pure; any thread.
 */

export const SUBSCRIPTION_STATES = [
  'none',
  'trialing',
  'active',
  'past_due',
  'canceled',
  'incomplete',
  'unpaid',
] as const;
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATES)[number];

/** One subscription of an organization at the processor. */
export interface Subscription {
  id: string;
  org_id: string;
  customer: string | null;
  status: Exclude<SubscriptionStatus, 'none'>;
  /** A plan's name; null when no price has named one yet. */
  plan: string | null;
  /** RFC 3339 */
  current_period_start: string | null;
  current_period_end: string | null;
  cancel_at_period_end: boolean;
  /** Of when the state is: seconds since the epoch, as the processor's events count. */
  as_of_s: number;
  /** When it was first heard of, in the same unit: of two live ones the newer counts. */
  first_seen_s: number;
}

/** What an event says of a subscription; what it does not say is absent. */
export interface SubscriptionChange {
  id: string;
  customer?: string | null;
  status?: Subscription['status'];
  plan?: string | null;
  current_period_start?: string | null;
  current_period_end?: string | null;
  cancel_at_period_end?: boolean;
  as_of_s: number;
}

/** The subscription as bootstrap and /billing/subscription show it; the cap is the plan's. */
export interface EffectiveSubscription {
  plan: string;
  status: SubscriptionStatus;
  current_period_start: string | null;
  current_period_end: string | null;
  cancel_at_period_end: boolean;
}

export const FREE_PLAN = 'free';

/**
 * The state after an event. An older event fills in what is not known and overwrites nothing; a canceled subscription
 * stays canceled, for the processor never revives one.
 */
export function mergeSubscription(
  before: Subscription | undefined,
  org_id: string,
  change: SubscriptionChange,
): Subscription {
  const { id, as_of_s, ...said } = change;
  const known: Subscription = before ?? {
    id,
    org_id,
    customer: null,
    status: 'incomplete',
    plan: null,
    current_period_start: null,
    current_period_end: null,
    cancel_at_period_end: false,
    as_of_s: Number.NEGATIVE_INFINITY,
    first_seen_s: as_of_s,
  };
  const isNewer = as_of_s >= known.as_of_s && known.status !== 'canceled';
  return {
    ...known,
    ...(isNewer ? said : {}),
    customer: (isNewer ? said.customer : null) ?? known.customer ?? said.customer ?? null,
    plan: (isNewer ? said.plan : null) ?? known.plan ?? said.plan ?? null,
    as_of_s: Math.max(as_of_s, known.as_of_s),
    first_seen_s: Math.min(as_of_s, known.first_seen_s),
  };
}

/** States in which the subscription's plan holds; in the others the organization falls to free. */
const PAYING: ReadonlySet<SubscriptionStatus> = new Set(['trialing', 'active', 'past_due']);

/** What counts of all subscriptions that an organization ever had: a paying one before others, then the newest. */
export function effectiveSubscription(subscriptions: readonly Subscription[]): EffectiveSubscription {
  const [first] = [...subscriptions].sort(
    (a, b) =>
      Number(PAYING.has(b.status)) - Number(PAYING.has(a.status)) ||
      b.first_seen_s - a.first_seen_s ||
      (a.id < b.id ? 1 : -1),
  );
  if (first === undefined)
    return {
      plan: FREE_PLAN,
      status: 'none',
      current_period_start: null,
      current_period_end: null,
      cancel_at_period_end: false,
    };
  const { status, current_period_start, current_period_end, cancel_at_period_end } = first;
  return {
    plan: PAYING.has(status) ? (first.plan ?? FREE_PLAN) : FREE_PLAN,
    status,
    current_period_start,
    current_period_end,
    cancel_at_period_end,
  };
}

/** What a webhook's event means for us. */
export interface BillingEvent {
  id: string;
  type: string;
  /** Ways to find the organization, the surest first; null where the event has none. */
  org_id: string | null;
  customer: string | null;
  change: SubscriptionChange | null;
}

/** Events that change something; anything else is acknowledged and left alone. */
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
 * Reads an event's object, tolerant of what is missing or of another type.
 * @param type one of {@link HANDLED_EVENTS}
 * @param object the event's object, or the object as it was fetched
 * @param as_of_s of when the object's state is
 * @param plans names of the plans there are
 */
export function readBillingEvent(
  { id, type, object, as_of_s }: { id: string; type: string; object: Json; as_of_s: number },
  plans: readonly string[],
): BillingEvent {
  const parent = record(record(object.parent).subscription_details);
  const metadata = [object.metadata, parent.metadata, record(object.subscription_details).metadata].map(
    record,
  );
  const org_id =
    metadata.map((fields) => text(fields.org_id)).find((found) => found !== null) ??
    text(object.client_reference_id);
  const named = metadata
    .map((fields) => text(fields.plan))
    .find((plan) => plan !== null && plans.includes(plan));
  const event = { id, type, org_id: org_id ?? null, customer: idOf(object.customer) };
  const base = { customer: event.customer, as_of_s };
  switch (type) {
    case 'checkout.session.completed': {
      const subscription = idOf(object.subscription);
      if (subscription === null) return { ...event, change: null };
      // The session is as old as the purchase; what the subscription itself says later counts more.
      const isPaid = object.payment_status === 'paid' || object.payment_status === 'no_payment_required';
      const status = isPaid ? { status: 'active' as const } : {};
      return { ...event, change: { id: subscription, ...base, ...status, plan: named ?? null } };
    }
    case 'invoice.paid':
    case 'invoice.payment_failed': {
      const subscription = idOf(object.subscription) ?? idOf(parent.subscription);
      if (subscription === null) return { ...event, change: null };
      const status = type === 'invoice.paid' ? 'active' : 'past_due';
      return { ...event, change: { id: subscription, ...base, status, plan: planOfLines(object, plans) } };
    }
    default:
      return { ...event, change: readSubscription(type, object, base, named ?? null, plans) };
  }
}

function readSubscription(
  type: string,
  object: Json,
  base: { customer: string | null; as_of_s: number },
  named: string | null,
  plans: readonly string[],
): SubscriptionChange | null {
  const id = text(object.id);
  if (id === null) return null;
  const item = record(list(record(object.items).data)[0]);
  // Newer versions of the processor's API keep the period with the item.
  const start = seconds(object.current_period_start) ?? seconds(item.current_period_start);
  const end = seconds(object.current_period_end) ?? seconds(item.current_period_end);
  return {
    id,
    ...base,
    status: type === 'customer.subscription.deleted' ? 'canceled' : statusOf(object.status),
    plan: planOfPrice(record(item.price), plans) ?? named,
    current_period_start: start,
    current_period_end: end,
    cancel_at_period_end: object.cancel_at_period_end === true,
  };
}

/** The processor's states in ours: `incomplete_expired` and `paused` are ends that we call otherwise. */
function statusOf(status: unknown): Subscription['status'] {
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

/** `lookup_key` is a plan's name or `<plan>_…` (decisions, Billing). */
export function planOfLookupKey(key: string, plans: readonly string[]): string | null {
  return plans.find((plan) => key === plan || key.startsWith(`${plan}_`)) ?? null;
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

/** Texts of the processor are short; a longer one is none of its. */
const TEXT_MAX = 255;

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' && value.length <= TEXT_MAX && value.isWellFormed()
    ? value
    : null;
}

/** The id of an object that may stand there whole. */
function idOf(value: unknown): string | null {
  return text(value) ?? text(record(value).id);
}

function seconds(value: unknown): string | null {
  const isTime = typeof value === 'number' && Number.isFinite(value) && Math.abs(value) < 8.64e12;
  return isTime ? new Date(value * 1_000).toISOString() : null;
}
