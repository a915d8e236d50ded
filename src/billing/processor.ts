/** The control plane's interface to a payment processor. Types; server threads. */

/** A webhook event with a valid signature. */
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
  /**
   * Ends a subscription immediately; has no effect on an ended or unknown one. @throws CatalogueError
   * `unavailable`
   */
  cancelSubscription(id: string): Promise<void>;
  /**
   * The present object of a thin event.
   * @returns null if the processor has no such object
   * @throws CatalogueError `unavailable` if it does not answer, so that the event is sent again
   */
  fetchObject(type: string, id: string): Promise<Readonly<Record<string, unknown>> | null>;
}

/** Checks signatures; needs no connection. */
export interface WebhookVerifier {
  /**
   * @param body as received, byte for byte
   * @param kind the route on which it arrived
   * @throws CatalogueError `malformed_request` for an invalid, missing or old signature, for a body that is
   *   not an event, and for an event of the other kind
   */
  verify(body: Uint8Array, signature: string | undefined, kind: 'full' | 'thin'): ProcessorEvent;
}
