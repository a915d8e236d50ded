/** Subscriptions of organizations, and the processor's events that were handled. Functions of a transaction. */
import {
  type BillingEvent,
  type EffectiveSubscription,
  effectiveSubscription,
  mergeSubscription,
  type Subscription,
} from '../../domain/billing.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

/** [org, subscription] → Subscription. */
const SUBSCRIPTIONS = 'subscriptions';
/** [subscription] → org: later events may name the subscription alone. */
const ORG_OF_SUBSCRIPTION = 'org_of_subscription';
/** [customer] → org, and [org] → the customer it last paid as. */
const ORG_OF_CUSTOMER = 'org_of_customer';
const CUSTOMER_OF_ORG = 'customer_of_org';
/** [event] → when it was handled, in milliseconds; [when, event] → true, so that the oldest go first. */
const EVENTS = 'billing_events';
const EVENTS_BY_TIME = 'billing_events_by_time';

/** The processor sends an event again for 30 days at most. */
const EVENT_MEMORY_MS = 90 * 86_400_000;
/** Old ones that each new event takes away. */
const FORGOTTEN_AT_ONCE = 4;

export function effectiveOf(tables: TableReader, org_id: string): EffectiveSubscription {
  return effectiveSubscription(subscriptionsOf(tables, org_id));
}

export function subscriptionsOf(tables: TableReader, org_id: string): Subscription[] {
  return [...tables.range<Subscription>(SUBSCRIPTIONS, { prefix: [org_id] })].map(({ value }) => value);
}

export function customerOf(tables: TableReader, org_id: string): string | undefined {
  return tables.get<string>(CUSTOMER_OF_ORG, [org_id]);
}

export function isHandled(tables: TableReader, event_id: string): boolean {
  return tables.get(EVENTS, [event_id]) !== undefined;
}

/**
 * Takes an event in: once, however often it comes.
 * @param isOrganization whether there is an organization of that id
 * @returns what to answer, and the subscription before and after where one changed
 */
export function applyBillingEvent(
  tx: TableTransaction,
  event: BillingEvent,
  isOrganization: (org_id: string) => boolean,
  nowMs: number,
): {
  duplicate: boolean;
  handled: boolean;
  org_id: string | null;
  before: Subscription | null;
  after: Subscription | null;
} {
  if (isHandled(tx, event.id))
    return { duplicate: true, handled: true, org_id: null, before: null, after: null };
  remember(tx, event.id, nowMs);
  const org_id = findOrganization(tx, event, isOrganization);
  if (org_id === null) return { duplicate: false, handled: false, org_id, before: null, after: null };
  if (event.customer !== null) {
    tx.write({ op: 'put', table: ORG_OF_CUSTOMER, row: [event.customer], value: org_id });
    tx.write({ op: 'put', table: CUSTOMER_OF_ORG, row: [org_id], value: event.customer });
  }
  if (event.change === null) return { duplicate: false, handled: true, org_id, before: null, after: null };
  const { id } = event.change;
  const before = tx.get<Subscription>(SUBSCRIPTIONS, [org_id, id]);
  const after = mergeSubscription(before, org_id, event.change);
  tx.write({ op: 'put', table: SUBSCRIPTIONS, row: [org_id, id], value: after });
  tx.write({ op: 'put', table: ORG_OF_SUBSCRIPTION, row: [id], value: org_id });
  return { duplicate: false, handled: true, org_id, before: before ?? null, after };
}

function findOrganization(
  tables: TableReader,
  event: BillingEvent,
  isOrganization: (org_id: string) => boolean,
): string | null {
  if (event.org_id !== null && isOrganization(event.org_id)) return event.org_id;
  const bySubscription =
    event.change === null ? undefined : tables.get<string>(ORG_OF_SUBSCRIPTION, [event.change.id]);
  const byCustomer =
    event.customer === null ? undefined : tables.get<string>(ORG_OF_CUSTOMER, [event.customer]);
  return bySubscription ?? byCustomer ?? null;
}

function remember(tx: TableTransaction, event_id: string, nowMs: number): void {
  tx.write({ op: 'put', table: EVENTS, row: [event_id], value: nowMs });
  tx.write({ op: 'put', table: EVENTS_BY_TIME, row: [nowMs, event_id], value: true });
  const oldest = [...tx.range(EVENTS_BY_TIME, { prefix: [], limit: FORGOTTEN_AT_ONCE })];
  for (const { row } of oldest) {
    const [at, id] = row as [number, string];
    if (at > nowMs - EVENT_MEMORY_MS) break;
    tx.write({ op: 'remove', table: EVENTS_BY_TIME, row: [at, id] });
    tx.write({ op: 'remove', table: EVENTS, row: [id] });
  }
}
