/** The operator's own keys (SVC_KEYS): for self-hosting, CI and development. Server threads. */
import { hash, timingSafeEqual } from 'node:crypto';
import type { CredentialKind } from './authenticator.ts';
import type { StaticPrincipal } from './principal.ts';

/** Number of hexadecimal digits of the digest that identify a key in logs and audits. */
const NAME_DIGITS = 12;

export class StaticKeys implements CredentialKind {
  readonly #known: readonly { digest: Buffer; principal: StaticPrincipal }[];
  /**
   * Valid keys that requests have presented, at most one for each configured key. An invalid key is compared every
   * time.
   */
  readonly #seen = new Map<string, StaticPrincipal>();

  constructor(keys: readonly string[]) {
    this.#known = keys.map((key) => {
      const digest = hash('sha256', key, 'buffer');
      const id = `static:${digest.toString('hex').slice(0, NAME_DIGITS)}`;
      return { digest, principal: { type: 'static', id } };
    });
  }

  /**
   * Finds the operator's key that equals the token; null: no key equals it. A valid key that was presented before is
   * looked up. The digest of any other token is compared with those of all keys in constant time, so that the duration
   * does not reveal how close a guess is.
   */
  verify(token: string): StaticPrincipal | null {
    const seen = this.#seen.get(token);
    if (seen !== undefined) return seen;
    if (this.#known.length === 0) return null;
    const digest = hash('sha256', token, 'buffer');
    let found: StaticPrincipal | null = null;
    for (const { digest: known, principal } of this.#known) {
      if (timingSafeEqual(known, digest)) found = principal;
    }
    if (found !== null) this.#seen.set(token, found);
    return found;
  }
}
