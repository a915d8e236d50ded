/** The roles that a member of an organization can have (contract document 4, "Credentials, roles, errors"). Any thread. */

/** Most powerful first. */
export const ROLES = ['owner', 'admin', 'member', 'viewer'] as const;

export type Role = (typeof ROLES)[number];

/** Whether `role` has all permissions of `least`. */
export function isAtLeast(role: Role, least: Role): boolean {
  return ROLES.indexOf(role) <= ROLES.indexOf(least);
}
