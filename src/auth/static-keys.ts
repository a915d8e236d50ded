/** The operator's own keys (SVC_KEYS): for self-hosting, CI and development. Front threads. */
import { hash, timingSafeEqual } from 'node:crypto';
import type { CredentialKind } from './authenticator.ts';
import type { StaticPrincipal } from './principal.ts';

/** Hexadecimal digits of the digest that name a key in logs and audits. */
const NAME_DIGITS = 12;

export class StaticKeys implements CredentialKind {
  readonly #known: readonly { digest: Buffer; principal: StaticPrincipal }[];

  constructor(keys: readonly string[]) {
    this.#known = keys.map((key) => {
      const digest = hash('sha256', key, 'buffer');
      const id = `static:${digest.toString('hex').slice(0, NAME_DIGITS)}`;
      return { digest, principal: { type: 'static', id } };
    });
  }

  /** Digests are compared, all of them and in constant time: how long it takes says nothing of how close a guess is. */
  verify(token: string): StaticPrincipal | null {
    if (this.#known.length === 0) return null;
    const digest = hash('sha256', token, 'buffer');
    let found: StaticPrincipal | null = null;
    for (const { digest: known, principal } of this.#known) {
      if (timingSafeEqual(known, digest)) found = principal;
    }
    return found;
  }
}
