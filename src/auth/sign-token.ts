/**
 * Tokens that this service signs itself if there is no identity provider (document 4, "Credentials, roles, errors"). Server threads.
 */
import { SignJWT } from 'jose';
import type { Config } from '../config.ts';
import { identifyOwner, subjectOf } from './owner.ts';

/** How long the link on the terminal is valid. */
export const OWNER_TOKEN_HOURS = 24;

/**
 * A JWT for a person with a known address: the same address is always the same user. The operator vouches for the
 * address, so invitations to it are shown.
 * @param secret HS256 (AUTH_JWT_SECRET, or the embedded one)
 * @param lifetimeS seconds until it expires
 */
export function signUserToken(
  auth: Pick<Config['auth'], 'jwt_issuer' | 'jwt_audience'>,
  secret: string,
  { email, name, lifetimeS, nowMs }: { email: string; name: string | null; lifetimeS: number; nowMs: number },
): Promise<string> {
  const nowS = Math.floor(nowMs / 1_000);
  const token = new SignJWT({ email, email_verified: true, ...(name === null ? {} : { name }) })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject(subjectOf(email))
    .setIssuer(identifyOwner(auth).issuer)
    .setIssuedAt(nowS)
    .setExpirationTime(nowS + lifetimeS);
  if (auth.jwt_audience !== null) token.setAudience(auth.jwt_audience);
  return token.sign(new TextEncoder().encode(secret));
}
