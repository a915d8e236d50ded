/**
 * The owner of the service: the user of the terminal's link, who may read captures. Any thread.
 */
import type { Config } from '../config.ts';
import type { CaptureOwner } from '../domain/run-mark.ts';

/** The first user, unless the configuration names another. */
export const OWNER = { email: 'owner@understudy.local', name: 'Owner' } as const;

/** Issuer of tokens if the configuration requires no issuer. */
const OWN_ISSUER = 'understudy';

/** Returns the issuer and the subject in the first user's tokens. */
export function identifyOwner({ jwt_issuer }: Pick<Config['auth'], 'jwt_issuer'>): {
  issuer: string;
  subject: string;
} {
  return { issuer: jwt_issuer ?? OWN_ISSUER, subject: subjectOf(OWNER.email) };
}

/** The subject of a token for the person with this address. */
export function subjectOf(email: string): string {
  return `email:${email.toLowerCase()}`;
}

/** Returns to whom the captures belong. `owner` is null if this service does not sign the first user's tokens itself. */
export function readCaptureOwner({ auth, engines, operators }: Config): CaptureOwner {
  // The terminal's link signs in with a secret of this service. Tokens of an identity provider never identify the
  // owner.
  const isOwnSecret =
    auth.jwks_url === null && (auth.jwt_secret !== null || engines.accounts === 'embedded:');
  return { ...operators, owner: isOwnSecret ? identifyOwner(auth) : null };
}
