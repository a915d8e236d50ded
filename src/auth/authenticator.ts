/**
 * Identifies the sender of a request from its `Authorization` header. The operator decides which kinds of credentials
 * are accepted; a token never chooses how it is verified. Server threads.
 */
import { CatalogueError } from '../errors.ts';
import { CREDENTIAL_CHARACTERS } from '../limits.ts';
import type { Principal } from './principal.ts';

/** One kind of credential. */
export interface CredentialKind {
  /**
   * Verifies a token of this kind.
   * @param token the text after `Bearer `
   * @returns null for a token of another kind, and for an invalid one
   * @throws CatalogueError `unavailable` (or rejects) if the token cannot be verified now
   */
  verify(token: string): Principal | null | Promise<Principal | null>;
}

/**
 * The scheme is case-insensitive (RFC 9110, 11.1). The token may have the characters of an operator's key
 * (config.ts): more than RFC 6750 allows, but no comma, which joins repeated headers.
 */
const BEARER = /^bearer +([\x21-\x2b\x2d-\x7e]+) *$/i;

export class Authenticator {
  readonly #kinds: readonly CredentialKind[];

  /** @param kinds tried in this order */
  constructor(kinds: readonly CredentialKind[]) {
    this.#kinds = kinds;
  }

  /**
   * Finds the sender of a request: the first kind of credential that knows the token decides.
   * @param authorization the header's value
   * @throws CatalogueError `unauthenticated` (or rejects): the same for missing, malformed and unknown credentials
   */
  authenticate(authorization: string | undefined): Principal | Promise<Principal> {
    const token = readToken(authorization);
    for (let at = 0; at < this.#kinds.length; at++) {
      const principal = this.#kinds[at]!.verify(token);
      if (principal instanceof Promise) return this.#goOn(principal, token, at + 1);
      if (principal !== null) return principal;
    }
    throw new CatalogueError('unauthenticated');
  }

  async #goOn(first: Promise<Principal | null>, token: string, next: number): Promise<Principal> {
    let principal = await first;
    for (let at = next; principal === null && at < this.#kinds.length; at++) {
      principal = await this.#kinds[at]!.verify(token);
    }
    if (principal === null) throw new CatalogueError('unauthenticated');
    return principal;
  }
}

function readToken(authorization: string | undefined): string {
  if (authorization === undefined || authorization.length > CREDENTIAL_CHARACTERS) {
    throw new CatalogueError('unauthenticated');
  }
  const token = BEARER.exec(authorization)?.[1];
  if (token === undefined) throw new CatalogueError('unauthenticated');
  return token;
}
