/** What the control plane needs of a payment processor. Types; server threads. */

/** An event of a webhook whose signature holds. */
export interface ProcessorEvent {
  id: string;
  type: string;
  /** Seconds since the epoch. */
  created_s: number;
  /** The object itself, of a full event; where to ask for it, of a thin one. */
  object:
    | { kind: 'full'; fields: Readonly<Record<string, unknown>> }
    | { kind: 'thin'; id: string; type: string };
}

export interface CheckoutRequest {
  org_id: string;
  plan: string;
  lookup_key: string;
  customer: string | null;
  email: string | null;
}

export interface PaymentProcessor {
  /**
   * A page on which the organization can subscribe.
   * @throws CatalogueError `not_found` when no price has the look-up key, `unavailable` when the processor does not answer
   */
  createCheckout(request: CheckoutRequest): Promise<{ url: string; session_id: string }>;
  /** A page on which a customer manages what it has. @throws CatalogueError `unavailable` */
  createPortal(customer: string): Promise<{ url: string }>;
  /** Ends a subscription at once; one that has ended or is unknown is left alone. @throws CatalogueError `unavailable` */
  cancelSubscription(id: string): Promise<void>;
  /**
   * The object of a thin event as it is now.
   * @returns null when the processor has no such object
   * @throws CatalogueError `unavailable` when it does not answer: the event may come again
   */
  fetchObject(type: string, id: string): Promise<Readonly<Record<string, unknown>> | null>;
}

/** Checks signatures; needs no connection. */
export interface WebhookVerifier {
  /**
   * @param body as it arrived, byte for byte
   * @param kind which of the two routes it came on
   * @throws CatalogueError `malformed_request` for a bad or missing signature, an old one, a body that is no event, or an
   *   event of the other kind
   */
  verify(body: Uint8Array, signature: string | undefined, kind: 'full' | 'thin'): ProcessorEvent;
}
