/** Billing: the plan, its limits, and links to the payment processor's pages. Browser. */
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { formatNumber } from '../core/format.ts';
import { useResource } from '../core/resource.ts';
import { isAtLeast, organization, server } from '../core/session.ts';
import { Badge, PageHead, Panel, Time, type Tone } from '../ui/basics.tsx';
import { Form } from '../ui/form.tsx';
import { MonthMeter } from '../ui/month-meter.tsx';
import { act } from '../ui/notice.tsx';
import { Empty, Loaded } from '../ui/states.tsx';

type Subscription = Reply<'GET /billing/subscription'>;

const TONES: Readonly<Record<string, Tone>> = {
  active: 'good',
  trialing: 'good',
  past_due: 'bad',
  unpaid: 'bad',
  incomplete: 'bad',
  canceled: 'off',
};

export function BillingPage() {
  const query = { org_id: organization.value!.id };
  const subscription = useResource(`subscription ${query.org_id}`, (signal) =>
    call('GET /billing/subscription', { query, signal }),
  );
  return (
    <>
      <PageHead title="Billing" sub="What the plan allows and how much of it is used." />
      <Panel title="Subscription">
        <Loaded from={subscription}>{(loaded) => <Facts subscription={loaded} />}</Loaded>
      </Panel>
      <MonthMeter org_id={query.org_id} />
      <Panel title="Change the plan">
        <PlanChange subscription={subscription.data.value} org_id={query.org_id} />
      </Panel>
    </>
  );
}

function Facts({ subscription }: { subscription: Subscription }) {
  const { plan, status, intervention_cap, cancel_at_period_end, current_period_end } = subscription;
  return (
    <dl class="facts">
      <div>
        <dt>Plan</dt>
        <dd>
          <b>{plan}</b>
        </dd>
      </div>
      <div>
        <dt>State</dt>
        <dd>
          <Badge tone={TONES[status] ?? 'plain'}>{status === 'none' ? 'no subscription' : status}</Badge>
        </dd>
      </div>
      <div>
        <dt>Interventions a month</dt>
        <dd>{intervention_cap === null ? 'no cap' : formatNumber(intervention_cap)}</dd>
      </div>
      <div>
        <dt>{cancel_at_period_end ? 'Ends' : 'Renews'}</dt>
        <dd>
          <Time at={current_period_end} never="–" />
        </dd>
      </div>
    </dl>
  );
}

function PlanChange({ subscription, org_id }: { subscription: Subscription | null; org_id: string }) {
  if (server.value?.has_billing === false)
    return (
      <Empty title="Payments are not set up on this server, and nothing is charged.">
        Its operator can set <code>STRIPE_SECRET_KEY</code>.
      </Empty>
    );
  if (!isAtLeast('owner')) return <Empty title="Only owners of the organization can change the plan." />;
  const go = (asked: Promise<{ url: string }>) =>
    act(async () => {
      const { url } = await asked;
      // Only http and https: an address from another server must not run a script.
      if (/^https?:/.test(url)) location.assign(url);
    });
  return (
    <>
      <Form
        fields={[{ name: 'lookup_key', label: 'Plan or price', required: true, placeholder: 'pro' }]}
        button="Subscribe"
        submit={({ lookup_key = '' }) =>
          go(call('POST /billing/create-checkout-session', { query: { org_id, lookup_key } }))
        }
      />
      {subscription === null || subscription.status === 'none' ? null : (
        <button
          type="button"
          class="plain"
          onClick={() => go(call('POST /billing/create-portal-session', { query: { org_id } }))}
        >
          Invoices, card and cancellation
        </button>
      )}
    </>
  );
}
