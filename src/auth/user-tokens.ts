/**
 * Verifies JWTs of the identity provider, which are credentials of signed-in users. The operator configures keys and
 * algorithms; a token's header only selects among the provider's keys. Server threads.
 */

import { hash } from 'node:crypto';
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose';
import { CatalogueError } from '../errors.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import type { CredentialKind } from './authenticator.ts';
import { CredentialCache } from './credential-cache.ts';
import type { UserIdentity, UserPrincipal } from './principal.ts';
import type { Revocations } from './revocations.ts';

/** How tokens are verified: by one shared secret (HS256) or by the keys that the provider publishes. */
type TokenTrust = { secret: string } | { jwks_url: string };

interface UserTokenOptions {
  trust: TokenTrust;
  /** Required value of `iss`; null: any. */
  issuer: string | null;
  /** Required member of `aud`; null: any. */
  audience: string | null;
}

/**
 * Algorithms for published keys. All are asymmetric: with a symmetric algorithm, anyone could sign tokens with the
 * published key.
 */
const PUBLIC_ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
const JWT = /^[\w-]{1,1024}\.[\w-]+\.[\w-]+$/;
/** Maximum length of a claim that is kept. */
const CLAIM_CHARACTERS = 255;
/** Deadline for the provider's answer. */
const JWKS_TIMEOUT_MS = 5_000;
/**
 * Shortest interval between fetches caused by an unknown key id, even during a flood of tokens with unknown key ids.
 */
const JWKS_COOLDOWN_MS = 30_000;
/** Age at which published keys are fetched again; old keys remain valid if the provider is down. */
const JWKS_REFRESH_MS = 600_000;
/** Pause after a failed fetch. */
const JWKS_BACKOFF_MS = 2_000;
const JWKS_BYTES_MAX = 1_048_576;

type Verify = (token: string) => Promise<JWTPayload>;

export class UserTokens implements CredentialKind {
  readonly #verify: Verify;
  readonly #revocations: Revocations;
  readonly #cache: CredentialCache<UserPrincipal>;

  constructor(options: UserTokenOptions, revocations: Revocations, clock: Clock = systemClock) {
    this.#verify = chooseVerifier(options, clock);
    this.#revocations = revocations;
    this.#cache = new CredentialCache(revocations, clock);
  }

  /**
   * Verifies a token; the result may come from the cache.
   * @returns null for a text that is not a JWT, and for an invalid or expired token
   * @throws CatalogueError (rejects) `unavailable` if the provider's keys cannot be fetched now
   */
  verify(token: string): UserPrincipal | null | Promise<UserPrincipal | null> {
    if (!JWT.test(token)) return null;
    const digest = this.#cache.digest(token);
    return this.#cache.get(digest) ?? this.#verifyNow(token, digest);
  }

  async #verifyNow(token: string, digest: string): Promise<UserPrincipal | null> {
    const { epoch } = this.#revocations;
    let claims: JWTPayload;
    try {
      claims = await this.#verify(token);
    } catch (thrown) {
      if (isTokenFault(thrown)) return null;
      throw new CatalogueError('unavailable', 'The keys of the identity provider cannot be read now', {
        cause: thrown,
      });
    }
    const identity = readIdentity(claims);
    if (identity === null) return null;
    const { issuer, subject } = identity;
    const id = `user:${hash('sha256', `${issuer}\0${subject}`, 'hex').slice(0, 32)}`;
    const principal: UserPrincipal = { type: 'user', id, identity };
    this.#cache.set(digest, principal, epoch, claims.exp! * 1000);
    return principal;
  }
}

function chooseVerifier({ trust, issuer, audience }: UserTokenOptions, clock: Clock): Verify {
  const options = () => ({
    requiredClaims: ['sub', 'exp'],
    currentDate: new Date(clock.wallMs()),
    ...(issuer === null ? {} : { issuer }),
    ...(audience === null ? {} : { audience }),
  });
  if ('secret' in trust) {
    const secret = Buffer.from(trust.secret, 'utf8');
    return async (token) => (await jwtVerify(token, secret, { ...options(), algorithms: ['HS256'] })).payload;
  }
  const keys = publishedKeys(new URL(trust.jwks_url), clock);
  return async (token) =>
    (await jwtVerify(token, keys, { ...options(), algorithms: PUBLIC_ALGORITHMS })).payload;
}

function publishedKeys(url: URL, clock: Clock): JWTVerifyGetKey {
  let askAgainMs = Number.NEGATIVE_INFINITY;
  let refreshMs = Number.POSITIVE_INFINITY;
  const keys = createRemoteJWKSet(url, {
    timeoutDuration: JWKS_TIMEOUT_MS,
    cooldownDuration: JWKS_COOLDOWN_MS,
    cacheMaxAge: Number.POSITIVE_INFINITY,
    [customFetch]: async (address, init) => {
      if (clock.monotonicMs() < askAgainMs) throw new Error('the identity provider failed a moment ago');
      try {
        const answer = await fetch(address, init);
        const body = answer.ok ? await readBounded(answer) : null;
        if (body === null) throw new Error(describeRefusal(answer));
        refreshMs = clock.monotonicMs() + JWKS_REFRESH_MS;
        return new Response(body, { status: 200 });
      } catch (thrown) {
        askAgainMs = clock.monotonicMs() + JWKS_BACKOFF_MS;
        throw thrown;
      }
    },
  });
  return (header, token) => {
    const isOld = clock.monotonicMs() >= refreshMs && !keys.reloading;
    if (isOld && clock.monotonicMs() >= askAgainMs) keys.reload().catch(() => {});
    return keys(header, token);
  };
}

/** Describes why a response is not used as the list of keys. */
function describeRefusal({ ok, status }: Response): string {
  return ok
    ? `the identity provider's list of keys has over ${JWKS_BYTES_MAX} bytes`
    : `the identity provider answered ${status}`;
}

/** Reads the body of a response; null for one that is too large for a list of keys. */
async function readBounded(answer: Response): Promise<string | null> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length;
    if (bytes > JWKS_BYTES_MAX) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** Whether the token is invalid, as opposed to a failure to get the provider's keys. */
function isTokenFault(thrown: unknown): boolean {
  if (!(thrown instanceof errors.JOSEError)) return false;
  return !['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC'].includes(thrown.code);
}

/**
 * Takes the user's identity from the claims of a token. An unusable `email`, `name` or `iat` becomes null. A missing
 * issuer becomes ''.
 * @returns null for a token without a usable subject, or with an unusable issuer
 */
function readIdentity({ iss, sub, iat, email, name, email_verified }: JWTPayload): UserIdentity | null {
  const subject = readText(sub);
  if (subject === null || (iss !== undefined && readText(iss) === null)) return null;
  return {
    issuer: iss ?? '',
    subject,
    email: readText(email),
    name: readText(name),
    email_verified: email_verified === true,
    issued_at_s: typeof iat === 'number' ? iat : null,
  };
}

function readText(claim: unknown): string | null {
  const isText = typeof claim === 'string' && claim !== '' && claim.length <= CLAIM_CHARACTERS;
  return isText && claim.isWellFormed() ? claim : null;
}
