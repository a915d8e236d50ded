/** Who belongs to which organization: what the API's checks need of the control plane. Types; server threads. */
import type { Role } from '../domain/role.ts';
import type { UserIdentity } from './principal.ts';

export interface Membership {
  /** `usr_…` */
  user_id: string;
  role: Role;
}

export interface MembershipReader {
  /** @returns null for an organization that is not there and for one that the user does not belong to, alike */
  roleOf(user: UserIdentity, org_id: string): Membership | null | Promise<Membership | null>;
}
