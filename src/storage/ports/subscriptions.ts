/** Subscriptions of organizations, and the payment processor's events. Types; any thread. */
import type { BillingEvent, EffectiveSubscription, Subscription } from '../../domain/billing.ts';

/** The effects of an event. */
export interface AppliedEvent {
  /** Whether the event was applied before, so that it has no effect now. */
  duplicate: boolean;
  /** Whether the event's organization was known when the event first arrived. */
  handled: boolean;
  /** null: unknown, or the event is a duplicate. */
  org_id: string | null;
  /** The subscription before the change; null: it is new, or `after` is null. */
  before: Subscription | null;
  /** The subscription after the change; null: no subscription of a known organization changed. */
  after: Subscription | null;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface SubscriptionReads {
  effectiveOf(org_id: string): EffectiveSubscription;
  /** Whether a subscription of the organization will be renewed. */
  hasRenewal(org_id: string): boolean;
  /**
   * Returns the processor's customer for the organization: the active subscription's customer, otherwise the last known
   * one.
   */
  customerOf(org_id: string): string | undefined;
  /** Whether the event's organization was known when the event first arrived; undefined for a new event. */
  findOutcome(event_id: string): boolean | undefined;
}

/** What a transaction may do. */
export interface SubscriptionWork extends SubscriptionReads {
  /**
   * Applies an event. An event that arrives again changes nothing.
   * @param isOrganization whether an organization with that id exists
   * @returns the effects of the event
   */
  apply(event: BillingEvent, isOrganization: (org_id: string) => boolean, nowMs: number): AppliedEvent;
}
