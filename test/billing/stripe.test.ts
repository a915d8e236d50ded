/** Stripe's library with a stand-in for Stripe's API on a real socket, and with real signatures. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import Stripe from 'stripe';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StripeProcessor, StripeWebhooks } from '../../src/billing/stripe.ts';

const SECRET = 'whsec_for_tests';

let server: Server;
let base: string;
let requests: { method: string; url: string; body: string; authorization: string }[];
/** The processor's answer to a path. null: it never answers. */
let answer: (url: string) => { status: number; body: unknown } | null;

beforeEach(async () => {
  requests = [];
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      const url = request.url ?? '';
      requests.push({
        method: request.method ?? '',
        url,
        body,
        authorization: request.headers.authorization ?? '',
      });
      const given = answer(url);
      if (given === null) return;
      response
        .writeHead(given.status, { 'content-type': 'application/json' })
        .end(JSON.stringify(given.body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});

const processor = (more: { request_ms?: number } = {}) =>
  new StripeProcessor({
    secret_key: 'sk_test_secret',
    api_base: base,
    return_url: 'http://127.0.0.1:8000/',
    ...more,
  });

describe('the payment processor', () => {
  const request = {
    org_id: 'org_a',
    plan: 'pro',
    lookup_key: 'pro_monthly',
    customer: null,
    email: 'a@b.co',
  };

  it('opens a checkout that contains the id of its organization', async () => {
    answer = (url) =>
      url.startsWith('/v1/prices')
        ? { status: 200, body: { object: 'list', data: [{ id: 'price_1' }] } }
        : { status: 200, body: { id: 'cs_1', url: 'https://pay.example/cs_1' } };
    expect(await processor().createCheckout(request)).toEqual({
      url: 'https://pay.example/cs_1',
      session_id: 'cs_1',
    });
    expect(requests[0]!.url).toContain('lookup_keys');
    const sent = new URLSearchParams(requests[1]!.body);
    expect(Object.fromEntries(sent)).toMatchObject({
      client_reference_id: 'org_a',
      'metadata[org_id]': 'org_a',
      'metadata[plan]': 'pro',
      'subscription_data[metadata][org_id]': 'org_a',
      'line_items[0][price]': 'price_1',
      mode: 'subscription',
    });
  });

  it('causes a 404 if it has no such price', async () => {
    answer = () => ({ status: 200, body: { object: 'list', data: [] } });
    await expect(processor().createCheckout(request)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('causes a 503 that does not contain the key when it fails or is down', async () => {
    answer = () => ({ status: 401, body: { error: { message: 'Invalid API Key: sk_test_secret' } } });
    const failure = await processor()
      .createPortal('cus_1')
      .catch((thrown: Error) => thrown);
    expect(failure).toMatchObject({ code: 'unavailable' });
    expect(`${(failure as Error).message}${(failure as Error).stack}`).not.toContain('sk_test');
    await new Promise((resolve) => server.close(resolve));
    await expect(processor().createPortal('cus_1')).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('causes a 503 when it accepts a request and never answers', async () => {
    answer = () => null;
    const asked = processor({ request_ms: 200 }).createCheckout(request);
    await expect(asked).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('returns objects of thin events by id and type, from its own address', async () => {
    answer = (url) =>
      url.endsWith('/sub_1')
        ? { status: 200, body: { id: 'sub_1', status: 'active' } }
        : { status: 404, body: { error: { message: 'No such thing', type: 'invalid_request_error' } } };
    expect(await processor().fetchObject('customer.subscription', 'sub_1')).toMatchObject({ id: 'sub_1' });
    expect(await processor().fetchObject('invoice', 'in_1')).toBeNull();
    expect(await processor().fetchObject('account', 'acct_1')).toBeNull();
    expect(requests.map(({ url }) => url)).toEqual(['/v1/subscriptions/sub_1', '/v1/invoices/in_1']);
  });
});

describe('a webhook', () => {
  const webhooks = new StripeWebhooks({ full: SECRET, thin: SECRET });
  const full = JSON.stringify({
    id: 'evt_1',
    object: 'event',
    type: 'invoice.paid',
    created: 1_767_225_600,
    data: { object: { id: 'in_1' } },
  });
  const thin = JSON.stringify({
    id: 'evt_2',
    object: 'v2.core.event',
    type: 'v1.customer.subscription.updated',
    created: '2026-01-01T00:00:00.000Z',
    related_object: { id: 'sub_1', type: 'subscription', url: 'https://evil.example/v1/subscriptions/sub_1' },
  });
  const sign = (payload: string, timestamp = Math.floor(Date.now() / 1_000), secret = SECRET) =>
    Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp });

  it('is read if its signature is valid', () => {
    expect(webhooks.verify(Buffer.from(full), sign(full), 'full')).toEqual({
      id: 'evt_1',
      type: 'invoice.paid',
      created_s: 1_767_225_600,
      object: { kind: 'full', fields: { id: 'in_1' } },
    });
    expect(webhooks.verify(Buffer.from(thin), sign(thin), 'thin')).toEqual({
      id: 'evt_2',
      type: 'customer.subscription.updated',
      created_s: 1_767_225_600,
      object: { kind: 'thin', id: 'sub_1', type: 'subscription' },
    });
  });

  it('is refused if the signature is missing, wrong, old, or for another body', () => {
    const old = Math.floor(Date.now() / 1_000) - 301;
    for (const [body, signature] of [
      [full, undefined],
      [full, ''],
      [full, 't=1,v1=00'],
      [full, sign(full, old)],
      [full, sign(full, undefined, 'whsec_other')],
      [`${full} `, sign(full)],
      ['{', sign('{')],
      ['[]', sign('[]')],
      [thin, sign(thin)],
    ] as const)
      expect(() => webhooks.verify(Buffer.from(body), signature, 'full'), String(signature)).toThrow(
        expect.objectContaining({ code: 'malformed_request' }),
      );
    expect(() => webhooks.verify(Buffer.from(full), sign(full), 'thin')).toThrow(/takes thin events/);
  });

  it('cannot be accepted without a secret', () => {
    const none = new StripeWebhooks({ full: null, thin: null });
    expect(() => none.verify(Buffer.from(full), sign(full), 'full')).toThrow(
      expect.objectContaining({ code: 'unavailable' }),
    );
  });
});
