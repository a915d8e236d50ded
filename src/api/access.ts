/**
 * Checks whether a user may do something in an organization: 403 without the permission, 404 without a membership. A
 * caller who is not a member of an organization gets the same answer as for an unknown organization. Server threads.
 */
import type { AuditActor, Organization, User } from '../domain/account.ts';
import { isAllowed, type Permission } from '../domain/permissions.ts';
import type { Role } from '../domain/role.ts';
import { CatalogueError } from '../errors.ts';
import type { AccountReads } from '../storage/ports/accounts.ts';

/**
 * Checks that a user may do something in an organization.
 * @returns the user's role in the organization
 * @throws CatalogueError `not_found` if the user is not a member, `forbidden` if the role lacks the permission
 */
export function requireRole(
  accounts: AccountReads,
  user: User,
  org_id: string,
  permission: Permission,
): Role {
  const role = accounts.organizations.roleOf(org_id, user.id);
  if (role === undefined) throw new CatalogueError('not_found');
  if (!isAllowed(role, permission)) throw new CatalogueError('forbidden');
  return role;
}

/**
 * Reads a user again, because a user who is deleted during a request must not create anything.
 * @returns the user as stored now
 * @throws CatalogueError `unauthenticated` if the user no longer exists
 */
export function requireUser(accounts: AccountReads, user: User): User {
  const present = accounts.users.find(user.id);
  if (present === undefined) throw new CatalogueError('unauthenticated', 'The account was deleted');
  return present;
}

/** Like {@link requireRole}, but returns the organization, too. Also throws `not_found` if the organization is missing. */
export function requireOrganization(
  accounts: AccountReads,
  user: User,
  org_id: string,
  permission: Permission,
): { organization: Organization; role: Role } {
  const role = requireRole(accounts, user, org_id, permission);
  const organization = accounts.organizations.find(org_id);
  if (organization === undefined) throw new CatalogueError('not_found');
  return { organization, role };
}

/**
 * Finds the organization of a request without `org_id` (document 4, "Which organization"): the oldest
 * organization that the user owns, otherwise the organization that the user joined first; null for
 * a user without organizations.
 */
export function defaultOrganization(accounts: AccountReads, user_id: string): string | null {
  const all = accounts.organizations
    .listOf(user_id)
    .sort((a, b) =>
      a.joined_at === b.joined_at
        ? compare(a.organization.id, b.organization.id)
        : compare(a.joined_at, b.joined_at),
    );
  const owned = all.filter(({ role }) => role === 'owner');
  owned.sort((a, b) => compare(a.organization.id, b.organization.id));
  return (owned[0] ?? all[0])?.organization.id ?? null;
}

/**
 * Chooses the organization that a request names, otherwise the user's default organization, and
 * checks the user's role in this organization.
 * @throws CatalogueError `not_found` without an organization or membership, `forbidden` if the role lacks the
 *   permission
 */
export function chooseOrganization(
  accounts: AccountReads,
  user: User,
  named: string | null | undefined,
  permission: Permission,
): { org_id: string; role: Role } {
  const org_id = named ?? defaultOrganization(accounts, user.id);
  if (org_id === null) throw new CatalogueError('not_found', 'You belong to no organization');
  return { org_id, role: requireRole(accounts, user, org_id, permission) };
}

/**
 * Checks the project of a query.
 * @returns the project's id; null if the query names none
 * @throws CatalogueError `not_found` for an unknown project, and for one of another organization
 */
export function chooseProject(
  accounts: AccountReads,
  org_id: string,
  project_id: string | undefined,
): string | null {
  if (project_id === undefined) return null;
  if (accounts.projects.find(project_id)?.org_id !== org_id) throw new CatalogueError('not_found');
  return project_id;
}

/**
 * Finds the organization whose audit log records a change that concerns only the user. The user owns this
 * organization, so that members of other organizations cannot read the entry. null: the user owns no
 * organization.
 */
export function ownOrganization(accounts: AccountReads, user_id: string): string | null {
  const org_id = defaultOrganization(accounts, user_id);
  return org_id !== null && accounts.organizations.roleOf(org_id, user_id) === 'owner' ? org_id : null;
}

/** Makes the actor of audit entries about a user's change. */
export function auditActor(user: User, address: string): AuditActor {
  return { type: 'user', id: user.id, address };
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
