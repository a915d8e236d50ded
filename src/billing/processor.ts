/** The control plane's interface to a payment processor. Types; server threads. */

/** A webhook event with a valid signature. */
export interface ProcessorEvent {
  id: string;
  type: string;
  /** Seconds since the epoch. */
  created_s: number;
  /** For a full event, the object itself. For a thin event, where to fetch the object. */
  object:
    | { kind: 'full'; fields: Readonly<Record<string, unknown>> }
    | { kind: 'thin'; id: string; type: string };
}

export interface CheckoutRequest {
  org_id: string;
  plan: string;
  /** The name by which the processor finds the plan's price. */
  lookup_key: string;
  /** The processor's id of the paying customer; null: the checkout makes a customer. */
  customer: string | null;
  /** Fills the field of the page if the checkout makes a customer; null: the field is empty. */
  email: string | null;
}

export interface PaymentProcessor {
  /**
   * Makes a page on which the organization can subscribe.
   * @throws CatalogueError `not_found` when no price has the look-up key, `unavailable` when the processor does not answer
   */
  createCheckout(request: CheckoutRequest): Promise<{ url: string; session_id: string }>;
  /** Makes a page on which a customer manages their subscription. @throws CatalogueError `unavailable` */
  createPortal(customer: string): Promise<{ url: string }>;
  /**
   * Ends a subscription immediately. An ended or unknown subscription is ignored.
   * @throws CatalogueError `unavailable`
   */
  cancelSubscription(id: string): Promise<void>;
  /**
   * Fetches the present object of a thin event.
   * @returns null if the processor has no such object, or if the type is not used
   * @throws CatalogueError `unavailable` if the processor does not answer; the processor then sends the event again
   */
  fetchObject(type: string, id: string): Promise<Readonly<Record<string, unknown>> | null>;
}

/** Checks signatures; needs no connection. */
export interface WebhookVerifier {
  /**
   * Checks the signature of a webhook, and reads its event.
   * @param body the body as received, byte for byte
   * @param kind the route on which it arrived
   * @throws CatalogueError `malformed_request` for an invalid, missing or old signature, for a body that is
   *   not an event, and for an event of the other kind; `unavailable` without a secret for this kind
   */
  verify(body: Uint8Array, signature: string | undefined, kind: 'full' | 'thin'): ProcessorEvent;
}
