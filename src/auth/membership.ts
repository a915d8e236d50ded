/**
 * The interface through which the API's checks read a user's membership from the control plane. Types; server threads.
 */
import type { Role } from '../domain/role.ts';
import type { UserIdentity } from './principal.ts';

export interface Membership {
  /** `usr_…` */
  user_id: string;
  role: Role;
}

export interface MembershipReader {
  /**
   * Finds the user's role in an organization.
   * @returns null if the organization is unknown or the user is not a member of it
   * @throws CatalogueError (or rejects) `unauthenticated` for a token that is older than the deletion of its account
   */
  roleOf(user: UserIdentity, org_id: string): Membership | null | Promise<Membership | null>;
}
