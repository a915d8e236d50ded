/** Who belongs to which organization: what the API's checks need of the control plane. Types; server threads. */
import type { Role } from '../domain/role.ts';
import type { UserIdentity } from './principal.ts';

export interface Membership {
  /** `usr_…` */
  user_id: string;
  role: Role;
}

export interface MembershipReader {
  /**
   * @returns null for an organization that is not there and for one that the user does not belong to, alike
   * @throws CatalogueError (or rejects) `unauthenticated` for a token that is older than the deletion of its account
   */
  roleOf(user: UserIdentity, org_id: string): Membership | null | Promise<Membership | null>;
}
