/** Organizations and their members. Types; any thread. */
import type { Member, Organization } from '../../domain/account.ts';
import type { Role } from '../../domain/role.ts';
import type { Listing, Page } from './page.ts';

/** An organization of a user. */
export interface Membership {
  organization: Organization;
  role: Role;
  joined_at: string;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface OrganizationReads {
  find(id: string): Organization | undefined;
  roleOf(org_id: string, user_id: string): Role | undefined;
  findMember(org_id: string, user_id: string): Member | undefined;
  /** Whether the user is the only owner of the organization. */
  isOnlyOwner(org_id: string, user_id: string): boolean;
  /** Lists the members, newest first. If members joined at the same time, the one with the greater id comes first. */
  listMembers(org_id: string, page: Page): Listing<Member>;
  countMembers(org_id: string): number;
  /** Lists the user's organizations, newest first. */
  listOf(user_id: string): Membership[];
}

/** What a transaction may do. */
export interface OrganizationWork extends OrganizationReads {
  /** Makes an organization that the user owns. */
  create(fields: { name: string; created_by: string }, nowMs: number): Organization;
  put(organization: Organization): void;
  /**
   * Adds a member.
   * @throws CatalogueError `conflict` if the user is a member already, or if the user or the organization has reached
   *   its limit
   */
  addMember(member: Omit<Member, 'joined_at'>, nowMs: number): Member;
  /** Changes the role of a member. @throws CatalogueError `conflict` if the organization would have no owner */
  changeRole(member: Member, role: Role): Member;
  /** Removes a member. @throws CatalogueError `conflict` if the organization would have no owner */
  removeMember(member: Member): void;
  /**
   * Removes the record and all memberships, and records that the organization's data must be removed.
   * @returns the ids of its members
   */
  remove(org_id: string, nowMs: number): string[];
}
