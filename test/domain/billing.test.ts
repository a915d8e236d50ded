/** An organization's subscription: the processor's events lead to the same state in any order. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  effectiveSubscription,
  mergeSubscription,
  planOfLookupKey,
  readBillingEvent,
  type Subscription,
} from '../../src/domain/billing.ts';

const PLANS = ['free', 'pro', 'enterprise'];

function subscriptionEvent(type: string, as_of_s: number, fields: Record<string, unknown> = {}) {
  const object = {
    id: 'sub_1',
    object: 'subscription',
    customer: 'cus_1',
    status: 'active',
    metadata: { org_id: 'org_a' },
    cancel_at_period_end: false,
    items: {
      data: [
        {
          price: { lookup_key: 'pro_monthly' },
          current_period_start: 1_767_225_600,
          current_period_end: 1_769_904_000,
        },
      ],
    },
    ...fields,
  };
  return readBillingEvent(
    { id: `evt_${as_of_s}`, type: `customer.subscription.${type}`, object, as_of_s },
    PLANS,
  );
}

function apply(events: readonly ReturnType<typeof readBillingEvent>[]) {
  const all = new Map<string, Subscription>();
  for (const { change } of events) {
    if (change === null) continue;
    all.set(change.id, mergeSubscription(all.get(change.id), 'org_a', change));
  }
  return effectiveSubscription([...all.values()]);
}

describe('a subscription', () => {
  it('does not exist before a purchase', () => {
    expect(effectiveSubscription([])).toEqual({
      plan: 'free',
      status: 'none',
      current_period_start: null,
      current_period_end: null,
      cancel_at_period_end: false,
    });
  });

  it('has the plan of its price', () => {
    expect(apply([subscriptionEvent('created', 10)])).toEqual({
      plan: 'pro',
      status: 'active',
      current_period_start: '2026-01-01T00:00:00.000Z',
      current_period_end: '2026-02-01T00:00:00.000Z',
      cancel_at_period_end: false,
    });
  });

  it('keeps its plan while a payment is late, and falls to free when it ends', () => {
    for (const [status, plan] of [
      ['trialing', 'pro'],
      ['past_due', 'pro'],
      ['unpaid', 'free'],
      ['incomplete', 'free'],
      ['canceled', 'free'],
      ['incomplete_expired', 'free'],
      ['paused', 'free'],
      ['something_new', 'free'],
    ])
      expect(apply([subscriptionEvent('updated', 10, { status })]).plan, status).toBe(plan);
  });

  it('has the same state for any order and any repetition of its events', () => {
    const events = [
      readBillingEvent(
        {
          id: 'evt_checkout',
          type: 'checkout.session.completed',
          as_of_s: 5,
          object: {
            subscription: 'sub_1',
            customer: 'cus_1',
            client_reference_id: 'org_a',
            payment_status: 'paid',
            metadata: { org_id: 'org_a', plan: 'pro' },
          },
        },
        PLANS,
      ),
      subscriptionEvent('created', 6, { status: 'incomplete' }),
      subscriptionEvent('updated', 7),
      readBillingEvent(
        {
          id: 'evt_failed',
          type: 'invoice.payment_failed',
          as_of_s: 8,
          object: { customer: 'cus_1', parent: { subscription_details: { subscription: 'sub_1' } } },
        },
        PLANS,
      ),
      subscriptionEvent('updated', 9, { cancel_at_period_end: true }),
    ];
    const expected = apply(events);
    expect(expected).toMatchObject({ plan: 'pro', status: 'active', cancel_at_period_end: true });
    fc.assert(
      fc.property(
        fc.shuffledSubarray([...events, ...events], { minLength: 10, maxLength: 10 }),
        (shuffled) => {
          expect(apply(shuffled)).toEqual(expected);
        },
      ),
    );
    const ended = [...events, subscriptionEvent('deleted', 20)];
    fc.assert(
      fc.property(fc.shuffledSubarray(ended, { minLength: 6, maxLength: 6 }), (shuffled) => {
        expect(apply(shuffled)).toMatchObject({ plan: 'free', status: 'canceled' });
      }),
    );
  });

  it('whose first payment fails gives no plan yet', () => {
    const failed = readBillingEvent(
      {
        id: 'evt_first',
        type: 'invoice.payment_failed',
        as_of_s: 11,
        object: { customer: 'cus_1', subscription: 'sub_1', billing_reason: 'subscription_create' },
      },
      PLANS,
    );
    const created = subscriptionEvent('created', 10, { status: 'incomplete' });
    for (const events of [
      [created, failed],
      [failed, created],
    ])
      expect(apply(events)).toMatchObject({ plan: 'free', status: 'incomplete' });
    const later = { ...failed, change: { ...failed.change!, payment: 'failed' as const } };
    expect(apply([created, later])).toMatchObject({ plan: 'free', status: 'incomplete' });
  });

  it('that begins and is paid within a second is active, whichever event comes last', () => {
    const events = [
      subscriptionEvent('created', 10, { status: 'incomplete' }),
      subscriptionEvent('updated', 10),
    ];
    expect(apply(events)).toMatchObject({ plan: 'pro', status: 'active' });
    expect(apply(events.toReversed())).toMatchObject({ plan: 'pro', status: 'active' });
  });

  it('keeps its trial when a first invoice of 0 is paid', () => {
    const paid = readBillingEvent(
      { id: 'e', type: 'invoice.paid', as_of_s: 11, object: { customer: 'cus_1', subscription: 'sub_1' } },
      PLANS,
    );
    expect(apply([subscriptionEvent('created', 10, { status: 'trialing' }), paid]).status).toBe('trialing');
  });

  it('has the plan of its price, not of a refund in an invoice', () => {
    const object = {
      customer: 'cus_1',
      subscription: 'sub_1',
      lines: { data: [{ price: { lookup_key: 'pro_monthly' } }, { price: { lookup_key: 'enterprise' } }] },
    };
    const upgraded = subscriptionEvent('updated', 20, {
      items: { data: [{ price: { lookup_key: 'enterprise_yearly' } }] },
    });
    const invoice = readBillingEvent({ id: 'e', type: 'invoice.paid', as_of_s: 21, object }, PLANS);
    expect(apply([subscriptionEvent('created', 10), upgraded, invoice]).plan).toBe('enterprise');
  });

  it('that is bought after another ended counts', () => {
    const second = { id: 'sub_2' };
    expect(
      apply([
        subscriptionEvent('created', 10),
        subscriptionEvent('created', 30, second),
        subscriptionEvent('deleted', 40),
      ]),
    ).toMatchObject({ plan: 'pro', status: 'active' });
  });
});

describe('an event', () => {
  it('names its organization in its metadata, otherwise in the reference', () => {
    expect(subscriptionEvent('updated', 1).org_ids).toEqual(['org_a']);
    const object = { client_reference_id: 'org_b', subscription: { id: 'sub_9' } };
    expect(
      readBillingEvent({ id: 'e', type: 'checkout.session.completed', object, as_of_s: 1 }, PLANS),
    ).toMatchObject({ org_ids: ['org_b'], change: { id: 'sub_9' } });
  });

  it('can be read with any content', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('checkout.session.completed', 'customer.subscription.updated', 'invoice.paid'),
        fc.dictionary(
          fc.constantFrom('id', 'customer', 'subscription', 'metadata', 'items', 'parent', 'lines', 'status'),
          fc.jsonValue(),
        ),
        (type, object) => {
          const { change } = readBillingEvent(
            { id: 'e', type, object: object as Record<string, unknown>, as_of_s: 1 },
            PLANS,
          );
          if (change !== null)
            expect(effectiveSubscription([mergeSubscription(undefined, 'o', change)]).plan).toBeTypeOf(
              'string',
            );
        },
      ),
    );
  });

  it('determines a plan from the beginning of a look-up key', () => {
    expect(planOfLookupKey('pro', PLANS)).toBe('pro');
    expect(planOfLookupKey('pro_yearly', PLANS)).toBe('pro');
    expect(planOfLookupKey('professional', PLANS)).toBeNull();
    expect(planOfLookupKey('pro_plus_yearly', [...PLANS, 'pro_plus'])).toBe('pro_plus');
    expect(planOfLookupKey('gold', PLANS)).toBeNull();
  });
});
