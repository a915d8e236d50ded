/**
 * Who may do what in an organization (decisions, Credentials and roles): one table, read by the handlers, by the tests
 * that try every route with every principal, and by docs/permissions.md. Any thread.
 */
import { isAtLeast, type Role } from './role.ts';

/** What a member can do, and the least role that may. */
export const PERMISSIONS = {
  'organization.read': 'viewer',
  'organization.rename': 'admin',
  'organization.delete': 'owner',
  'members.read': 'viewer',
  'members.remove': 'admin',
  'members.change_role': 'admin',
  /** Make or unmake an owner, or touch one in any way. */
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
} as const satisfies Record<string, Role>;

export type Permission = keyof typeof PERMISSIONS;

export function isAllowed(role: Role, permission: Permission): boolean {
  return isAtLeast(role, PERMISSIONS[permission]);
}

/**
 * Which permission each dashboard route asks for, by the endpoint's id. `signed in`: anybody's own affairs.
 * docs/permissions.md is this table with the roles.
 */
export const ROUTE_PERMISSIONS = {
  get_me: 'signed in',
  patch_me: 'signed in',
  delete_me: 'signed in',
  bootstrap: 'signed in',
  list_organizations: 'signed in',
  create_organization: 'signed in',
  accept_invitation: 'signed in',
  send_feedback: 'signed in',
  retention: 'signed in',
  read_organization: 'organization.read',
  rename_organization: 'organization.rename',
  delete_organization: 'organization.delete',
  list_members: 'members.read',
  change_member_role: 'members.change_role',
  remove_member: 'members.remove',
  invite: 'invitations.create',
  list_invitations: 'invitations.read',
  revoke_invitation: 'invitations.revoke',
  list_audit_log: 'audit.read',
  list_projects: 'projects.read',
  create_project: 'projects.create',
  read_project: 'projects.read',
  rename_project: 'projects.rename',
  delete_project: 'projects.delete',
  list_api_keys: 'keys.read',
  create_api_key: 'keys.create',
  rotate_api_key: 'keys.rotate',
  revoke_api_key: 'keys.revoke',
  usage_stats: 'usage.read',
  key_usage: 'usage.read',
  usage: 'usage.read',
  get_subscription: 'billing.read',
  intervention_usage: 'billing.read',
  create_checkout_session: 'billing.change',
  create_portal_session: 'billing.change',
} as const satisfies Record<string, Permission | 'signed in'>;
