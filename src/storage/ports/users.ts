/** Users, and the identities with which they sign in. Types; any thread. */
import type { Identity, User } from '../../domain/account.ts';

/** The claims of an identity provider about a person. */
export interface SignIn extends Identity {
  email: string | null;
  name: string | null;
  email_verified: boolean;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface UserReads {
  /**
   * Finds the id of the user with an identity.
   * @returns undefined for an identity without an account
   * @throws CatalogueError `unauthenticated` if the token is older than the deletion of the account
   */
  findId(identity: Identity, nowMs: number): string | undefined;
  find(id: string): User | undefined;
  /**
   * Lists the ids of the users with this address. Several identity providers may confirm the same address for different
   * users.
   */
  listWithEmail(email: string): Iterable<string>;
}

/** What a transaction may do. */
export interface UserWork extends UserReads {
  /** Creates the user of an identity without an account. */
  create(signIn: SignIn, nowMs: number): User;
  /**
   * Removes the record but keeps the digest of the identity, so that tokens issued before the deletion are refused.
   * @param identity identity in the token with which the account is deleted; its provider's clock may be ahead
   */
  remove(user: User, identity: Identity, nowMs: number): void;
  put(user: User): void;
}
