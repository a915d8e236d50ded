/**
 * The sender of a request, according to the credential itself. Types; server threads.
 */

/** One of the operator's own keys (SVC_KEYS). */
export interface StaticPrincipal {
  type: 'static';
  /** `static:` and the beginning of the key's digest. */
  id: string;
}

/** A per-customer key; its scope is the tenant. */
export interface KeyPrincipal {
  type: 'key';
  /** `key_…` */
  id: string;
  org_id: string;
  project_id: string | null;
}

/** A signed-in user, by a verified JWT. */
export interface UserPrincipal {
  type: 'user';
  /** `user:` and a digest of issuer and subject. */
  id: string;
  identity: UserIdentity;
}

/** The identity provider's statements about the user. Issuer and subject identify the user's record. */
export interface UserIdentity {
  /** '' when the token names none. */
  issuer: string;
  subject: string;
  email: string | null;
  name: string | null;
  /** true only if the token contains the boolean true. */
  email_verified: boolean;
  /** The token's issue time, seconds since the epoch; null: the token has none. */
  issued_at_s: number | null;
}

export type Principal = StaticPrincipal | KeyPrincipal | UserPrincipal;
