/** Who sends a request, as far as the credential itself says. Types; server threads. */

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

/** What the identity provider says of the user. Issuer and subject are the link to the user's record. */
export interface UserIdentity {
  /** '' when the token names none. */
  issuer: string;
  subject: string;
  email: string | null;
  name: string | null;
  /** true only when the token says so, as the boolean: what is missing proves nothing. */
  email_verified: boolean;
  /** When the token was issued, seconds since the epoch; null: it does not say. */
  issued_at_s: number | null;
}

export type Principal = StaticPrincipal | KeyPrincipal | UserPrincipal;
