/**
 * Billing over HTTP: the real library and real signatures against a stand-in for the payment processor's API, which
 * listens on a socket and can be slow, wrong or gone.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import Stripe from 'stripe';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ControlPlaneChild, type Person } from '../fixtures/control-plane.ts';

const SECRET = 'whsec_full';
const THIN_SECRET = 'whsec_thin';

/** Objects by path. The processor answers 404 for a missing one. */
const objects = new Map<string, unknown>();
let isDown = false;
/** Forms that were posted, by path. */
const posted: { path: string; form: URLSearchParams }[] = [];
/** Requested paths, in order. */
const fetched: string[] = [];
const goneCustomers = new Set<string>();
let processor: Server;
let api: ControlPlaneChild;

beforeAll(async () => {
  processor = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://processor');
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const form = new URLSearchParams(Buffer.concat(chunks).toString());
    fetched.push(pathname);
    if (request.method === 'POST') posted.push({ path: pathname, form });
    if (goneCustomers.has(form.get('customer') ?? '')) {
      response.writeHead(400, { 'content-type': 'application/json' });
      const error = { type: 'invalid_request_error', code: 'resource_missing', param: 'customer' };
      return void response.end(JSON.stringify({ error: { ...error, message: 'No such customer' } }));
    }
    if (isDown) return void request.socket.destroy();
    const found =
      pathname === '/v1/prices'
        ? {
            object: 'list',
            data: [...searchParams.values()].includes('pro_monthly') ? [{ id: 'price_1' }] : [],
          }
        : objects.get(pathname);
    const body = found ?? { error: { type: 'invalid_request_error', message: 'No such object' } };
    response.writeHead(found === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => processor.listen(0, '127.0.0.1', resolve));
  objects.set('/v1/checkout/sessions', { id: 'cs_1', url: 'https://pay.example/cs_1' });
  objects.set('/v1/billing_portal/sessions', { id: 'bps_1', url: 'https://pay.example/portal' });
  api = new ControlPlaneChild({
    STRIPE_SECRET_KEY: 'sk_test_secret',
    STRIPE_WEBHOOK_SECRET: SECRET,
    STRIPE_WEBHOOK_THIN_SECRET: THIN_SECRET,
    STRIPE_API_BASE: `http://127.0.0.1:${(processor.address() as AddressInfo).port}`,
    // With two threads, copies of an event reach both.
    SERVER_THREADS: '2',
    PLAN_CAPS: '{"free": 10, "pro": 1000, "enterprise": null}',
  });
  await api.start();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  processor.closeAllConnections();
  await new Promise((resolve) => processor.close(resolve));
});

let people = 0;
const newPerson = () => api.person(`payer${++people}`);
let events = 0;
const NOW_S = Math.floor(Date.now() / 1_000);

function subscription(org_id: string, fields: Record<string, unknown> = {}) {
  return {
    id: `sub_${org_id}`,
    object: 'subscription',
    customer: `cus_${org_id}`,
    status: 'active',
    metadata: { org_id },
    items: { data: [{ price: { lookup_key: 'pro_monthly' } }] },
    cancel_at_period_end: false,
    ...fields,
  };
}

function fullEvent(type: string, object: unknown, created = NOW_S): string {
  return JSON.stringify({ id: `evt_${++events}`, object: 'event', type, created, data: { object } });
}

async function send(
  payload: string,
  { secret = SECRET, path = '/billing/webhook' }: { secret?: string; path?: string } = {},
): Promise<{
  status: number;
  body: { received?: boolean; handled?: boolean; duplicate?: boolean; detail?: string };
}> {
  const response = await fetch(api.url + path, {
    method: 'POST',
    headers: { 'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload, secret }) },
    body: payload,
  });
  return { status: response.status, body: (await response.json()) as never };
}

const planOf = async ({ token }: Person) => (await api.call(token, 'GET', '/billing/subscription')).body;

describe('a subscription', () => {
  it('that is paid after its organization was deleted is cancelled, and no other is', {
    tags: 'long',
  }, async () => {
    const gone = await newPerson();
    const cancelled = () => fetched.filter((path) => path.startsWith('/v1/subscriptions/sub_'));
    fetched.length = 0;
    expect((await api.call(gone.token, 'DELETE', `/organizations/${gone.org_id}`)).status).toBe(204);
    objects.set(`/v1/subscriptions/sub_${gone.org_id}`, subscription(gone.org_id, { status: 'canceled' }));
    const begun = fullEvent('customer.subscription.created', subscription(gone.org_id));
    isDown = true;
    expect((await send(begun)).status).toBe(503);
    isDown = false;
    expect((await send(begun)).status).toBe(200);
    expect(new Set(cancelled())).toEqual(new Set([`/v1/subscriptions/sub_${gone.org_id}`]));
    fetched.length = 0;
    expect(
      (await send(fullEvent('customer.subscription.created', subscription('org-of-another-service')))).status,
    ).toBe(200);
    expect(cancelled()).toEqual([]);
  });

  it('protects its organization and the only member from deletion until it is cancelled', async () => {
    const payer = await newPerson();
    const path = `/organizations/${payer.org_id}`;
    const tell = (fields: Record<string, unknown>, created: number) =>
      send(fullEvent('customer.subscription.updated', subscription(payer.org_id, fields), created));
    await tell({}, NOW_S);
    for (const doomed of [path, '/auth/me']) {
      const refused = await api.call(payer.token, 'DELETE', doomed);
      expect([refused.status, refused.body.detail], doomed).toEqual([
        409,
        expect.stringContaining('subscription'),
      ]);
    }
    await tell({ status: 'past_due' }, NOW_S + 1);
    expect((await api.call(payer.token, 'DELETE', path)).status).toBe(409);
    expect((await api.call(payer.token, 'GET', path)).status).toBe(200);
    await tell({ cancel_at_period_end: true }, NOW_S + 2);
    expect((await api.call(payer.token, 'DELETE', path)).status).toBe(204);
    // The processor reports the end later: the event is accepted, but does not restore the subscription.
    const ended = subscription(payer.org_id, { status: 'canceled' });
    const last = await send(fullEvent('customer.subscription.deleted', ended, NOW_S + 3));
    expect(last).toMatchObject({ status: 200, body: { handled: true } });
    expect((await api.call(payer.token, 'GET', path)).status).toBe(404);
    expect((await api.call(payer.token, 'DELETE', '/auth/me')).status).toBe(204);
  });

  it('changes with its events, and changes the plan and the cap', async () => {
    const payer = await newPerson();
    const { org_id } = payer;
    const checkout = {
      object: 'checkout.session',
      id: 'cs_1',
      customer: `cus_${org_id}`,
      subscription: `sub_${org_id}`,
      client_reference_id: org_id,
      payment_status: 'paid',
      metadata: { org_id, plan: 'pro' },
    };
    expect((await send(fullEvent('checkout.session.completed', checkout, NOW_S - 50))).body).toEqual({
      received: true,
      handled: true,
      duplicate: false,
    });
    expect(await planOf(payer)).toMatchObject({ plan: 'pro', status: 'active', intervention_cap: 1000 });
    await send(
      fullEvent('customer.subscription.updated', subscription(org_id, { status: 'past_due' }), NOW_S - 30),
    );
    expect(await planOf(payer)).toMatchObject({ plan: 'pro', status: 'past_due' });
    // An older event that arrives late changes nothing.
    await send(
      fullEvent('customer.subscription.created', subscription(org_id, { status: 'incomplete' }), NOW_S - 40),
    );
    expect(await planOf(payer)).toMatchObject({ plan: 'pro', status: 'past_due' });
    const invoice = {
      object: 'invoice',
      customer: `cus_${org_id}`,
      parent: { subscription_details: { subscription: `sub_${org_id}` } },
    };
    await send(fullEvent('invoice.paid', invoice, NOW_S - 20));
    expect(await planOf(payer)).toMatchObject({ plan: 'pro', status: 'active' });
    await send(fullEvent('customer.subscription.deleted', subscription(org_id), NOW_S - 10));
    expect(await planOf(payer)).toMatchObject({ plan: 'free', status: 'canceled', intervention_cap: 10 });
    const usage = (await api.call(payer.token, 'GET', '/billing/intervention-usage?days=3')).body;
    expect(usage).toMatchObject({ used: 0, cap: 10, remaining: 10 });
    expect(usage.series).toHaveLength(3);
    expect((await api.call(payer.token, 'GET', '/billing/intervention-usage')).body.series).toBeUndefined();
  });

  it('of an unknown organization is acknowledged but not handled, like an event of an unused type', async () => {
    expect(
      (await send(fullEvent('customer.subscription.updated', subscription('org_unknown')))).body,
    ).toEqual({
      received: true,
      handled: false,
      duplicate: false,
    });
    expect((await send(fullEvent('charge.refunded', { id: 'ch_1' }))).body).toMatchObject({ handled: false });
  });

  it('changes once with each event, even if a hundred copies arrive at once or a copy arrives after a kill', {
    tags: 'long',
  }, async () => {
    const payer = await newPerson();
    const payload = fullEvent('customer.subscription.created', subscription(payer.org_id));
    const answers = await Promise.all(Array.from({ length: 100 }, () => send(payload)));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(answers.filter(({ body }) => body.duplicate === false)).toHaveLength(1);
    await api.kill();
    await api.start();
    expect((await send(payload)).body).toMatchObject({ handled: true, duplicate: true });
    expect(await planOf(payer)).toMatchObject({ plan: 'pro' });
    const log = await api.call(payer.token, 'GET', `/organizations/${payer.org_id}/audit-log`);
    expect(log.body.map((entry: { action: string }) => entry.action)).toEqual([
      'billing.customer.subscription.created',
      'organization.create',
    ]);
    expect(log.body[0]).toMatchObject({ actor_type: 'stripe', before: null, after: { plan: 'pro' } });
  });
});

describe('a paid subscription', () => {
  it('without an organization counts as soon as an event names its organization', async () => {
    const payer = await newPerson();
    const { org_id } = payer;
    // A subscription that was made by a payment link does not name an organization.
    const bare = { ...subscription(org_id), metadata: {} };
    expect((await send(fullEvent('customer.subscription.created', bare, NOW_S - 9))).body.handled).toBe(
      false,
    );
    expect((await planOf(payer)).plan).toBe('free');
    const checkout = {
      object: 'checkout.session',
      customer: `cus_${org_id}`,
      subscription: `sub_${org_id}`,
      client_reference_id: org_id,
      payment_status: 'paid',
    };
    expect((await send(fullEvent('checkout.session.completed', checkout, NOW_S - 10))).body.handled).toBe(
      true,
    );
    expect(await planOf(payer)).toMatchObject({ plan: 'pro', status: 'active' });
    await send(fullEvent('customer.subscription.deleted', bare, NOW_S));
    expect(await planOf(payer)).toMatchObject({ plan: 'free', status: 'canceled' });
  });

  it('counts only for the organization to which it was moved last', async () => {
    const [first, second] = [await newPerson(), await newPerson()];
    const id = `sub_moved_${first.org_id}`;
    const of = (org_id: string) => subscription(org_id, { id, customer: 'cus_moving' });
    await send(fullEvent('customer.subscription.created', of(first.org_id), NOW_S - 20));
    expect((await planOf(first)).plan).toBe('pro');
    await send(fullEvent('customer.subscription.updated', of(second.org_id), NOW_S - 10));
    expect([(await planOf(first)).plan, (await planOf(second)).plan]).toEqual(['free', 'pro']);
    // A late event from before the move does not move the subscription back.
    await send(fullEvent('customer.subscription.updated', of(first.org_id), NOW_S - 15));
    expect([(await planOf(first)).plan, (await planOf(second)).plan]).toEqual(['free', 'pro']);
  });

  it('of another customer for the same organization counts in addition to the first', async () => {
    const payer = await newPerson();
    const { org_id } = payer;
    await send(fullEvent('customer.subscription.created', subscription(org_id), NOW_S - 30));
    const other = subscription(org_id, {
      id: `sub_other_${org_id}`,
      customer: `cus_other_${org_id}`,
      items: { data: [{ price: { lookup_key: 'enterprise' } }] },
    });
    await send(fullEvent('customer.subscription.created', other, NOW_S - 20));
    expect(await planOf(payer)).toMatchObject({ plan: 'enterprise', intervention_cap: null });
    await send(fullEvent('customer.subscription.deleted', other, NOW_S - 10));
    expect(await planOf(payer)).toMatchObject({ plan: 'pro', status: 'active' });
    posted.length = 0;
    await api.call(payer.token, 'POST', '/billing/create-portal-session');
    expect(posted.at(-1)?.form.get('customer')).toBe(`cus_${org_id}`);
  });
});

describe('a thin event', () => {
  const thin = (type: string, object_id: string) =>
    JSON.stringify({
      id: `evt_thin_${++events}`,
      object: 'v2.core.event',
      type: `v1.${type}`,
      created: new Date(NOW_S * 1_000).toISOString(),
      related_object: { id: object_id, type: 'subscription', url: 'http://127.0.0.1:1/evil' },
    });
  const sendThin = (payload: string) => send(payload, { secret: THIN_SECRET, path: '/billing/webhook/thin' });

  it('is looked up at the processor, and gets a 503 while the processor is down, so that it is sent again', async () => {
    const payer = await newPerson();
    const { org_id } = payer;
    objects.set(`/v1/subscriptions/sub_${org_id}`, subscription(org_id));
    const payload = thin('customer.subscription.updated', `sub_${org_id}`);
    isDown = true;
    expect((await sendThin(payload)).status).toBe(503);
    isDown = false;
    expect((await sendThin(payload)).body).toEqual({ received: true, handled: true, duplicate: false });
    expect((await sendThin(payload)).body).toMatchObject({ duplicate: true });
    expect(await planOf(payer)).toMatchObject({ plan: 'pro', status: 'active' });
    // An event from before the fetch arrives too late.
    await send(
      fullEvent('customer.subscription.updated', subscription(org_id, { status: 'unpaid' }), NOW_S - 100),
    );
    expect(await planOf(payer)).toMatchObject({ status: 'active' });
  });

  it('is fetched once, however many copies arrive at once', async () => {
    const payer = await newPerson();
    const path = `/v1/subscriptions/sub_${payer.org_id}`;
    objects.set(path, subscription(payer.org_id));
    const payload = thin('customer.subscription.updated', `sub_${payer.org_id}`);
    const replies = await Promise.all(Array.from({ length: 50 }, () => sendThin(payload)));
    expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 200));
    expect(replies.filter(({ body }) => !body.duplicate)).toHaveLength(1);
    expect(fetched.filter((at) => at === path)).toHaveLength(1);
  });

  it('about an object that no longer exists is acknowledged as not handled', async () => {
    expect((await sendThin(thin('invoice.paid', 'in_gone'))).body).toMatchObject({ handled: false });
  });

  it('is accepted only on its own route', async () => {
    const payload = thin('customer.subscription.updated', 'sub_1');
    expect((await send(payload)).status).toBe(400);
    const full = fullEvent('invoice.paid', {});
    expect((await send(full, { secret: THIN_SECRET, path: '/billing/webhook/thin' })).status).toBe(400);
  });
});

describe('a webhook', () => {
  it('without a valid signature is refused, whatever it contains', async () => {
    const payer = await newPerson();
    const payload = fullEvent('customer.subscription.created', subscription(payer.org_id));
    expect((await send(payload, { secret: 'whsec_wrong' })).status).toBe(400);
    const unsigned = await fetch(`${api.url}/billing/webhook`, { method: 'POST', body: payload });
    expect(unsigned.status).toBe(400);
    expect((await send('{"a":')).status).toBe(400);
    // The signature is valid but too old: a client repeats a request that it recorded.
    const timestamp = Math.floor(Date.now() / 1_000) - 301;
    const old = Stripe.webhooks.generateTestHeaderString({ payload, secret: SECRET, timestamp });
    const replayed = await fetch(`${api.url}/billing/webhook`, {
      method: 'POST',
      headers: { 'stripe-signature': old },
      body: payload,
    });
    expect(replayed.status).toBe(400);
    expect(await planOf(payer)).toMatchObject({ plan: 'free', status: 'none' });
  });
});

describe('checkout and portal', () => {
  it('lead the owner to the processor', async () => {
    const payer = await newPerson();
    const checkout = (key: string) =>
      api.call(payer.token, 'POST', `/billing/create-checkout-session?lookup_key=${key}`);
    expect((await checkout('pro_monthly')).body).toEqual({
      url: 'https://pay.example/cs_1',
      session_id: 'cs_1',
    });
    expect((await checkout('pro_unknown')).status).toBe(404);
    expect((await checkout('gold')).status).toBe(404);
    expect((await checkout('')).status).toBe(404);
    const portal = () => api.call(payer.token, 'POST', '/billing/create-portal-session');
    expect((await portal()).status).toBe(409);
    await send(fullEvent('customer.subscription.created', subscription(payer.org_id)));
    expect((await portal()).body).toEqual({ url: 'https://pay.example/portal' });
    posted.length = 0;
    goneCustomers.add(`cus_${payer.org_id}`);
    expect((await checkout('pro_monthly')).status).toBe(200);
    expect(posted.map(({ form }) => form.get('customer') ?? form.get('customer_email'))).toEqual([
      `cus_${payer.org_id}`,
      payer.email,
    ]);
    const { form } = posted.at(-1)!;
    expect(form.get('client_reference_id')).toBe(payer.org_id);
    expect(form.get('metadata[org_id]')).toBe(payer.org_id);
    expect(form.get('subscription_data[metadata][org_id]')).toBe(payer.org_id);
    goneCustomers.clear();
    isDown = true;
    const failed = await portal();
    isDown = false;
    expect(failed.status).toBe(503);
    expect(failed.text).not.toContain('sk_test');
  });
});
