/**
 * Stripe as the payment processor, through its official library (docs.stripe.com/api, docs.stripe.com/webhooks).
 * Server threads.
 */
import Stripe from 'stripe';
import { CatalogueError } from '../errors.ts';
import { BILLING_REQUEST_MS } from '../limits.ts';
import type { CheckoutRequest, PaymentProcessor, ProcessorEvent, WebhookVerifier } from './processor.ts';

/** Maximum age of a webhook's signature, in seconds. Older signatures are refused (document 4, "Usage and billing"). */
const WEBHOOK_TOLERANCE_S = 300;

interface StripeOptions {
  secret_key: string;
  /** Address of the API; null: Stripe's. */
  api_base: string | null;
  /** Address to which people return from the processor's pages. */
  return_url: string;
  /** Time limit of a call to the processor. */
  request_ms?: number;
}

export class StripeProcessor implements PaymentProcessor {
  readonly #stripe: Stripe;
  readonly #returnUrl: string;
  readonly #request_ms: number;

  constructor({ secret_key, api_base, return_url, request_ms = BILLING_REQUEST_MS }: StripeOptions) {
    this.#request_ms = request_ms;
    const base = api_base === null ? null : new URL(api_base);
    this.#stripe = new Stripe(secret_key, {
      timeout: request_ms,
      maxNetworkRetries: 1,
      telemetry: false,
      ...(base === null
        ? {}
        : {
            host: base.hostname,
            protocol: base.protocol === 'http:' ? 'http' : 'https',
            port: base.port === '' ? (base.protocol === 'http:' ? 80 : 443) : Number(base.port),
          }),
    });
    this.#returnUrl = return_url;
  }

  async createCheckout(request: CheckoutRequest): Promise<{ url: string; session_id: string }> {
    const { org_id, plan, lookup_key, customer, email } = request;
    const prices = await this.#call(() =>
      this.#stripe.prices.list({ lookup_keys: [lookup_key], active: true, limit: 1 }),
    );
    const price = prices.data[0];
    if (price === undefined) throw new CatalogueError('not_found', 'No active price has this lookup_key');
    const metadata = { org_id, plan };
    const anybody = email === null ? {} : { customer_email: email };
    const create = (payer: { customer: string } | { customer_email?: string }) =>
      this.#stripe.checkout.sessions.create({
        mode: 'subscription',
        line_items: [{ price: price.id, quantity: 1 }],
        client_reference_id: org_id,
        metadata,
        subscription_data: { metadata },
        success_url: `${this.#returnUrl}?checkout=success`,
        cancel_url: `${this.#returnUrl}?checkout=canceled`,
        ...payer,
      });
    const session = await this.#call(() =>
      customer === null
        ? create(anybody)
        : create({ customer }).catch((thrown: unknown) => {
            // The customer was deleted at the processor, so the checkout makes a new customer.
            if (isMissing(thrown)) return create(anybody);
            throw thrown;
          }),
    );
    if (session.url === null)
      throw new CatalogueError('unavailable', 'The payment processor returned no page');
    return { url: session.url, session_id: session.id };
  }

  async createPortal(customer: string): Promise<{ url: string }> {
    const session = await this.#call(() =>
      this.#stripe.billingPortal.sessions.create({ customer, return_url: this.#returnUrl }),
    );
    return { url: session.url };
  }

  async cancelSubscription(id: string): Promise<void> {
    try {
      await this.#call(() => this.#stripe.subscriptions.cancel(id));
    } catch (thrown) {
      if (!(thrown instanceof CatalogueError && thrown.code === 'not_found')) throw thrown;
    }
  }

  async fetchObject(type: string, id: string): Promise<Readonly<Record<string, unknown>> | null> {
    const fetch = () => {
      switch (type) {
        case 'customer.subscription':
        case 'subscription':
          return this.#stripe.subscriptions.retrieve(id);
        case 'checkout.session':
          return this.#stripe.checkout.sessions.retrieve(id);
        case 'invoice':
          return this.#stripe.invoices.retrieve(id);
        default:
          return null;
      }
    };
    try {
      const found = await this.#call(async () => fetch());
      return found as Readonly<Record<string, unknown>> | null;
    } catch (thrown) {
      if (thrown instanceof CatalogueError && thrown.code === 'not_found') return null;
      throw thrown;
    }
  }

  /**
   * Calls the processor. Replaces the texts of the processor's errors, which may contain parts of the key. The library
   * retries failed requests, so the whole call has a separate deadline, after which an answer is ignored.
   * @throws CatalogueError `not_found` for an unknown object, `unavailable` for any other failure
   */
  async #call<Value>(work: () => Promise<Value>): Promise<Value> {
    let timer: NodeJS.Timeout | undefined;
    const end = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error('no answer within the time limit')), this.#request_ms);
    });
    try {
      return await Promise.race([work(), end]);
    } catch (thrown) {
      if (isMissing(thrown))
        throw new CatalogueError('not_found', 'The payment processor has no such object');
      const cause = new Error(`the payment processor: ${describeFailure(thrown)}`);
      throw new CatalogueError(
        'unavailable',
        'The payment processor does not answer, or refuses the request',
        { cause },
      );
    } finally {
      clearTimeout(timer);
    }
  }
}

function isMissing(thrown: unknown): boolean {
  if (!(thrown instanceof Stripe.errors.StripeError)) return false;
  return thrown.statusCode === 404 || (thrown.code === 'resource_missing' && thrown.param === 'customer');
}

/** Describes a failure for the log, with kinds and codes but without texts of the processor. */
function describeFailure(thrown: unknown): string {
  if (!(thrown instanceof Stripe.errors.StripeError)) return 'no answer within the time limit';
  const { type, statusCode, code, param } = thrown;
  return [type, statusCode, code, param].filter((part) => part !== undefined && part !== null).join(' ');
}

export class StripeWebhooks implements WebhookVerifier {
  readonly #secrets: Readonly<Record<'full' | 'thin', string | null>>;

  constructor(secrets: { full: string | null; thin: string | null }) {
    this.#secrets = secrets;
  }

  verify(body: Uint8Array, signature: string | undefined, kind: 'full' | 'thin'): ProcessorEvent {
    const secret = this.#secrets[kind];
    if (secret === null)
      throw new CatalogueError('unavailable', `No secret for ${kind} webhook events is configured`);
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
    try {
      if (signature === undefined || signature === '') throw new Error('missing');
      Stripe.webhooks.signature!.verifyHeader(text, signature, secret, WEBHOOK_TOLERANCE_S);
    } catch {
      throw new CatalogueError('malformed_request', 'The Stripe-Signature is missing, invalid or too old');
    }
    const event = readEvent(text);
    if (event === null) throw new CatalogueError('malformed_request', 'The body is not an event');
    if (event.object.kind !== kind)
      throw new CatalogueError('malformed_request', `This route takes ${kind} events`);
    return event;
  }
}

const ID_MAX = 255;

function readEvent(text: string): ProcessorEvent | null {
  let event: unknown;
  try {
    event = JSON.parse(text);
  } catch {
    return null;
  }
  const fields = objectOf(event);
  if (fields === null || !isId(fields.id) || !isId(fields.type)) return null;
  if (fields.object === 'v2.core.event') {
    const related = objectOf(fields.related_object);
    const created_s = typeof fields.created === 'string' ? Date.parse(fields.created) / 1_000 : Number.NaN;
    if (Number.isNaN(created_s)) return null;
    const object = {
      kind: 'thin' as const,
      id: isId(related?.id) ? related.id : '',
      type: isId(related?.type) ? related.type : '',
    };
    // `v1.` marks an event whose object has the form of the API's version 1. Without this prefix, the names of thin and
    // full events are the same.
    return { id: fields.id, type: fields.type.replace(/^v1\./, ''), created_s, object };
  }
  const object = objectOf(objectOf(fields.data)?.object);
  if (fields.object !== 'event' || object === null || typeof fields.created !== 'number') return null;
  if (!Number.isFinite(fields.created)) return null;
  return {
    id: fields.id,
    type: fields.type,
    created_s: fields.created,
    object: { kind: 'full', fields: object },
  };
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : null;
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= ID_MAX && value.isWellFormed();
}
