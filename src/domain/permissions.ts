/**
 * Which role a permission requires in an organization (contract document 4, "Credentials, roles, errors"). The contract names each
 * route's permission, and the handlers check it. Any thread.
 */
import { isAtLeast, type Role } from './role.ts';

/** The lowest role that has each permission. */
export const PERMISSIONS = {
  'organization.read': 'viewer',
  'organization.rename': 'admin',
  'organization.delete': 'owner',
  'members.read': 'viewer',
  'members.remove': 'admin',
  'members.change_role': 'admin',
  /** Appoint, remove or change an owner. */
  'owners.change': 'owner',
  'invitations.read': 'viewer',
  'invitations.create': 'admin',
  'invitations.revoke': 'admin',
  'projects.read': 'viewer',
  'projects.create': 'member',
  'projects.rename': 'member',
  'projects.delete': 'admin',
  'keys.read': 'viewer',
  'keys.create': 'member',
  'keys.rotate': 'member',
  'keys.revoke': 'member',
  'usage.read': 'viewer',
  'billing.read': 'viewer',
  'billing.change': 'owner',
  'audit.read': 'admin',
  /** Save, list and delete the user's own searches. */
  'searches.keep': 'viewer',
} as const satisfies Record<string, Role>;

export type Permission = keyof typeof PERMISSIONS;

export function isAllowed(role: Role, permission: Permission): boolean {
  return isAtLeast(role, PERMISSIONS[permission]);
}
