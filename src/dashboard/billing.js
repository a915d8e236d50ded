/** Billing: the plan, what it allows, and the payment processor's pages. Browser. */
import {
  make,
  makeBadge,
  makeButton,
  makeForm,
  makeHead,
  makePanel,
  makeTable,
  makeTime,
} from './elements.js';
import { isAtLeast } from './lists.js';
import { makeMonth } from './overview.js';
import { call, withQuery } from './session.js';

const number = new Intl.NumberFormat();
const STATES = {
  active: 'good',
  trialing: 'good',
  past_due: 'bad',
  unpaid: 'bad',
  incomplete: 'bad',
  canceled: 'off',
};

export async function fillBilling(page, { org, role, server, act }) {
  const query = { org_id: org.id };
  const [subscription, meter] = await Promise.all([
    call('GET', withQuery('/billing/subscription', query)),
    call('GET', withQuery('/billing/intervention-usage', query)),
  ]);
  const go = (path, extra = {}) =>
    act(async () => {
      const { url } = await call('POST', withQuery(path, { ...query, ...extra }));
      // Only ever to a page: an address from elsewhere must not become a script.
      if (/^https?:/.test(url)) location.assign(url);
    });
  const facts = makeTable(
    [
      ['Plan', (one) => make('b', {}, one.plan)],
      [
        'State',
        (one) => makeBadge(one.status === 'none' ? 'no subscription' : one.status, STATES[one.status]),
      ],
      [
        'Interventions a month',
        (one) => (one.intervention_cap === null ? 'no cap' : number.format(one.intervention_cap)),
      ],
      [subscription.cancel_at_period_end ? 'Ends' : 'Renews', (one) => makeTime(one.current_period_end, '–')],
    ],
    [subscription],
    '',
  );
  page.append(
    makeHead('Billing', 'What the plan allows and how much of it is used.'),
    makePanel('Subscription', facts),
    makeMonth(meter),
  );
  if (server.has_billing === false) {
    page.append(
      makePanel(
        'Change the plan',
        make(
          'p',
          { class: 'empty' },
          'Payments are not set up on this server, and nothing is charged. Whoever runs it can set STRIPE_SECRET_KEY.',
        ),
      ),
    );
    return;
  }
  if (!isAtLeast(role, 'owner')) {
    page.append(
      makePanel('Change the plan', make('p', { class: 'empty' }, 'Owners of the organization can.')),
    );
    return;
  }
  page.append(
    makePanel(
      'Change the plan',
      makeForm(
        [['lookup_key', 'Plan or price', { required: true, placeholder: 'pro' }]],
        'Subscribe',
        ({ lookup_key }) => go('/billing/create-checkout-session', { lookup_key }),
      ),
      subscription.status === 'none'
        ? null
        : makeButton('Invoices, card and cancellation', () => go('/billing/create-portal-session'), 'plain'),
    ),
  );
}
