/**
 * Opens the payment processor that the operator's configuration names. The processor's library has hundreds of modules,
 * so it is loaded only if billing is on. Server threads.
 */
import { CatalogueError } from '../errors.ts';
import type { PaymentProcessor, WebhookVerifier } from './processor.ts';

/** The settings of billing; null: not set. */
interface BillingChoice {
  secret_key: string | null;
  /** Address of the processor's API; null: not set, and the default is used. */
  api_base: string | null;
  webhook_secret: string | null;
  /** Secret of thin events; null: not set, and `webhook_secret` is used. */
  webhook_thin_secret: string | null;
}

interface Billing {
  /** null: billing is off. */
  processor: PaymentProcessor | null;
  webhooks: WebhookVerifier;
}

const NO_WEBHOOKS: WebhookVerifier = {
  verify: () => {
    throw new CatalogueError('unavailable', 'No webhook secret is configured');
  },
};

/**
 * Opens what the settings allow: the processor, webhooks, or nothing.
 * @param return_url address to which people return from the processor's pages
 */
export async function openBilling(choice: BillingChoice, return_url: string): Promise<Billing> {
  const { secret_key, api_base, webhook_secret, webhook_thin_secret } = choice;
  if (secret_key === null && webhook_secret === null && webhook_thin_secret === null)
    return { processor: null, webhooks: NO_WEBHOOKS };
  const { StripeProcessor, StripeWebhooks } = await import('./stripe.ts');
  return {
    processor: secret_key === null ? null : new StripeProcessor({ secret_key, api_base, return_url }),
    webhooks: new StripeWebhooks({ full: webhook_secret, thin: webhook_thin_secret ?? webhook_secret }),
  };
}
