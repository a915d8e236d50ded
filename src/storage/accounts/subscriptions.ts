/**
 * Subscriptions of organizations, and the events of the payment processor that were handled. The functions run in a
 * transaction. Server threads.
 */
import {
  type BillingEvent,
  doesRenew,
  type EffectiveSubscription,
  effectiveSubscription,
  mergeSubscription,
  rankSubscriptions,
  type Subscription,
} from '../../domain/billing.ts';
import type { PlanReader } from '../../domain/plans.ts';
import type { AppliedEvent, SubscriptionReads, SubscriptionWork } from '../ports/subscriptions.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

/** [org, subscription] → Subscription; org is '' while the organization is unknown. */
const SUBSCRIPTIONS = 'subscriptions';
/** [subscription] → the org in the subscription's key. Later events may contain only the subscription. */
const ORG_OF_SUBSCRIPTION = 'org_of_subscription';
/** [customer] → org, and [org] → the customer of its last payment. */
const ORG_OF_CUSTOMER = 'org_of_customer';
const CUSTOMER_OF_ORG = 'customer_of_org';
/** [event] → whether its organization was known; [time, event] → true, to find the oldest events. */
const EVENTS = 'billing_events';
const EVENTS_BY_TIME = 'billing_events_by_time';

/** How long an event is remembered. The processor repeats an event for at most 30 days. */
const EVENT_MEMORY_MS = 90 * 86_400_000;
/** Maximum number of old events that are removed with each new one. */
const FORGOTTEN_AT_ONCE = 4;

export class TableSubscriptionReads implements SubscriptionReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  effectiveOf(org_id: string): EffectiveSubscription {
    return effectiveSubscription(subscriptionsOf(this.#reader, org_id));
  }

  hasRenewal(org_id: string): boolean {
    return subscriptionsOf(this.#reader, org_id).some(doesRenew);
  }

  customerOf(org_id: string): string | undefined {
    const [payer] = rankSubscriptions(subscriptionsOf(this.#reader, org_id)).flatMap(
      ({ customer }) => customer ?? [],
    );
    return payer?.value ?? this.#reader.get<string>(CUSTOMER_OF_ORG, [org_id]);
  }

  findOutcome(event_id: string): boolean | undefined {
    return this.#reader.get<boolean>(EVENTS, [event_id]);
  }
}

export class TableSubscriptionWork extends TableSubscriptionReads implements SubscriptionWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  apply(event: BillingEvent, isOrganization: (org_id: string) => boolean, nowMs: number): AppliedEvent {
    const nothing = { org_id: null, before: null, after: null };
    const known = this.findOutcome(event.id);
    if (known !== undefined) return { duplicate: true, handled: known, ...nothing };
    const kept = event.change === null ? undefined : findSubscription(this.#tx, event.change.id);
    const org_id = findOrganization(this.#tx, event, kept, isOrganization);
    const handled = org_id !== '';
    remember(this.#tx, event.id, handled, nowMs);
    if (handled && event.customer !== null) {
      this.#tx.write({ op: 'put', table: ORG_OF_CUSTOMER, row: [event.customer], value: org_id });
      this.#tx.write({ op: 'put', table: CUSTOMER_OF_ORG, row: [org_id], value: event.customer });
    }
    if (event.change === null)
      return { ...nothing, duplicate: false, handled, org_id: handled ? org_id : null };
    // The subscription is kept while its organization is unknown, because the event that names it may arrive last.
    const { id } = event.change;
    const after = mergeSubscription(kept, org_id, event.change);
    if (kept !== undefined && kept.org_id !== org_id)
      this.#tx.write({ op: 'remove', table: SUBSCRIPTIONS, row: [kept.org_id, id] });
    this.#tx.write({ op: 'put', table: SUBSCRIPTIONS, row: [org_id, id], value: after });
    this.#tx.write({ op: 'put', table: ORG_OF_SUBSCRIPTION, row: [id], value: org_id });
    if (!handled) return { ...nothing, duplicate: false, handled };
    return { duplicate: false, handled, org_id, before: kept ?? null, after };
  }
}

function subscriptionsOf(tables: TableReader, org_id: string): Subscription[] {
  return [...tables.range<Subscription>(SUBSCRIPTIONS, { prefix: [org_id] })].map(({ value }) => value);
}

/** Says which plan an organization is on. */
export function planReader(subscriptions: Pick<SubscriptionReads, 'effectiveOf'>): PlanReader {
  return { planOf: (org_id) => subscriptions.effectiveOf(org_id).plan };
}

function findSubscription(tables: TableReader, id: string): Subscription | undefined {
  const org_id = tables.get<string>(ORG_OF_SUBSCRIPTION, [id]);
  return org_id === undefined ? undefined : tables.get<Subscription>(SUBSCRIPTIONS, [org_id, id]);
}

/** Finds the organization of an event. @returns '' if it is unknown */
function findOrganization(
  tables: TableReader,
  event: BillingEvent,
  kept: Subscription | undefined,
  isOrganization: (org_id: string) => boolean,
): string {
  const owner = kept?.org_id ?? '';
  // The organization of a subscription may have changed. An event that is older than the stored subscription must not
  // change it back.
  const isOld = owner !== '' && event.change !== null && event.change.as_of_s < (kept?.object?.as_of_s ?? 0);
  const named = isOld ? undefined : event.org_ids.find(isOrganization);
  if (named !== undefined) return named;
  if (owner !== '') return owner;
  return (event.customer === null ? undefined : tables.get<string>(ORG_OF_CUSTOMER, [event.customer])) ?? '';
}

function remember(tx: TableTransaction, event_id: string, handled: boolean, nowMs: number): void {
  tx.write({ op: 'put', table: EVENTS, row: [event_id], value: handled });
  tx.write({ op: 'put', table: EVENTS_BY_TIME, row: [nowMs, event_id], value: true });
  const oldest = [...tx.range(EVENTS_BY_TIME, { prefix: [], limit: FORGOTTEN_AT_ONCE })];
  for (const { row } of oldest) {
    const [at, id] = row as [number, string];
    if (at > nowMs - EVENT_MEMORY_MS) break;
    tx.write({ op: 'remove', table: EVENTS_BY_TIME, row: [at, id] });
    tx.write({ op: 'remove', table: EVENTS, row: [id] });
  }
}
