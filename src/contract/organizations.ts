/** Organizations, their members, invitations and audit log (document 1). Data; any thread. */
import { z } from 'zod';
import { INVITATION_STATES } from '../domain/account.ts';
import { ROLES } from '../domain/role.ts';
import { endpoint, refusal } from './endpoint.ts';
import { email, identifier, literal, pageFields, text } from './fields.ts';
import { ORG_NAME_CHARACTERS } from './limits.ts';

export const orgOut = z
  .object({
    id: z.string(),
    name: z.string(),
    created_by: z.string().nullable().optional(),
    created_at: z.string(),
  })
  .meta({ id: 'OrgOut' });

const orgCreate = z.object({ name: text({ min: 1, max: ORG_NAME_CHARACTERS }) }).meta({ id: 'OrgCreate' });

export const orgMemberOut = z
  .object({ user_id: z.string(), email: z.string(), role: z.enum(ROLES), joined_at: z.string() })
  .meta({ id: 'OrgMemberOut' });

const inviteRequest = z
  .object({ email: email(), role: literal(ROLES).default('member') })
  .meta({ id: 'InviteRequest' });

export const invitationOut = z
  .object({
    id: z.string(),
    org_id: z.string(),
    email: z.string(),
    role: z.enum(ROLES),
    status: z.enum(INVITATION_STATES),
    invited_by: z.string(),
    organization_name: z.string().describe('Present name of the organization'),
    inviter_name: z
      .string()
      .describe('Display name, or the address if the user has no display name; empty for a deleted account'),
    created_at: z.string(),
    expires_at: z.string(),
  })
  .meta({ id: 'InvitationOut' });

/** Any other key is refused. */
const memberRole = z.strictObject({ role: literal(ROLES) }).meta({ id: 'MemberRole' });

const snapshot = z.record(z.string(), z.unknown()).nullable();

const auditEntryOut = z
  .object({
    id: z.string(),
    org_id: z.string(),
    actor: z.string(),
    actor_type: z.enum(['user', 'key', 'stripe', 'operator']),
    action: z.string(),
    target: z.string(),
    before: snapshot,
    after: snapshot,
    address: z.string(),
    created_at: z.string(),
  })
  .meta({ id: 'AuditEntryOut' });

const orgParams = z.object({ org_id: identifier() });
const page = z.object(pageFields());
const removed = z.object({ removed: z.literal(true) }).meta({ id: 'Removed' });

export const ORGANIZATIONS = {
  listOrganizations: endpoint({
    id: 'list_organizations',
    method: 'GET',
    path: '/organizations',
    described_path: '/organizations/',
    auth: 'user',
    permission: 'signed in',
    summary: 'Organizations that the user belongs to, newest first',
    tag: 'organizations',
    replies: { 200: { description: 'The organizations', schema: z.array(orgOut) } },
  }),
  createOrganization: endpoint({
    id: 'create_organization',
    method: 'POST',
    path: '/organizations',
    described_path: '/organizations/',
    auth: 'user',
    permission: 'signed in',
    summary: 'Make an organization that the user owns',
    tag: 'organizations',
    body: orgCreate,
    replies: {
      200: { description: 'The organization', schema: orgOut },
      409: refusal('The maximum number of organizations is reached'),
    },
  }),
  readOrganization: endpoint({
    id: 'read_organization',
    method: 'GET',
    path: '/organizations/{org_id}',
    auth: 'user',
    permission: 'organization.read',
    summary: 'One organization that the user belongs to',
    tag: 'organizations',
    params: orgParams,
    replies: { 200: { description: 'The organization', schema: orgOut } },
  }),
  renameOrganization: endpoint({
    id: 'rename_organization',
    method: 'PATCH',
    path: '/organizations/{org_id}',
    auth: 'user',
    permission: 'organization.rename',
    summary: 'Rename an organization',
    tag: 'organizations',
    params: orgParams,
    body: orgCreate,
    replies: { 200: { description: 'The organization after the change', schema: orgOut } },
  }),
  deleteOrganization: endpoint({
    id: 'delete_organization',
    method: 'DELETE',
    path: '/organizations/{org_id}',
    auth: 'user',
    permission: 'organization.delete',
    summary: 'Delete an organization permanently, with its projects, keys, members and runs',
    tag: 'organizations',
    params: orgParams,
    replies: {
      204: { description: 'Deleted: its keys are refused, and its data cannot be read any more' },
      409: refusal('The organization has a paid subscription that renews'),
    },
  }),
  listMembers: endpoint({
    id: 'list_members',
    method: 'GET',
    path: '/organizations/{org_id}/members',
    auth: 'user',
    permission: 'members.read',
    summary: 'Members, newest first',
    tag: 'organizations',
    params: orgParams,
    query: page,
    replies: {
      200: {
        description: 'A page of members; `x-total-count` is the number of all members',
        schema: z.array(orgMemberOut),
        headers: ['x-total-count'],
      },
    },
  }),
  changeMemberRole: endpoint({
    id: 'change_member_role',
    method: 'PATCH',
    path: '/organizations/{org_id}/members/{member_user_id}',
    auth: 'user',
    permission: 'members.change_role',
    summary: "Change a member's role",
    tag: 'organizations',
    params: z.object({ org_id: identifier(), member_user_id: identifier() }),
    body: memberRole,
    replies: {
      200: { description: 'The member after the change', schema: orgMemberOut },
      409: refusal('The last owner cannot be demoted'),
    },
  }),
  removeMember: endpoint({
    id: 'remove_member',
    method: 'DELETE',
    path: '/organizations/{org_id}/members/{member_user_id}',
    auth: 'user',
    permission: 'members.remove',
    summary: 'Remove a member; every member may remove themselves',
    tag: 'organizations',
    params: z.object({ org_id: identifier(), member_user_id: identifier() }),
    replies: {
      200: { description: 'The member is removed', schema: removed },
      409: refusal('The last owner cannot be removed'),
    },
  }),
  invite: endpoint({
    id: 'invite',
    method: 'POST',
    path: '/organizations/{org_id}/invite',
    auth: 'user',
    permission: 'invitations.create',
    summary: 'Invite an address; an existing invitation of the address stays',
    tag: 'organizations',
    params: orgParams,
    body: inviteRequest,
    replies: {
      200: { description: 'The pending invitation', schema: invitationOut },
      409: refusal('The address is a member already'),
    },
  }),
  listInvitations: endpoint({
    id: 'list_invitations',
    method: 'GET',
    path: '/organizations/{org_id}/invitations',
    auth: 'user',
    permission: 'invitations.read',
    summary: 'Invitations in every state, newest first',
    tag: 'organizations',
    params: orgParams,
    query: page,
    replies: {
      200: {
        description: 'A page of invitations; `x-total-count` is the number of all invitations',
        schema: z.array(invitationOut),
        headers: ['x-total-count'],
      },
    },
  }),
  revokeInvitation: endpoint({
    id: 'revoke_invitation',
    method: 'DELETE',
    path: '/organizations/{org_id}/invitations/{invitation_id}',
    auth: 'user',
    permission: 'invitations.revoke',
    summary: 'Revoke a pending invitation',
    tag: 'organizations',
    params: z.object({ org_id: identifier(), invitation_id: identifier() }),
    replies: {
      200: { description: 'The revoked invitation', schema: invitationOut },
      409: refusal('The invitation is accepted or expired already'),
    },
  }),
  acceptInvitation: endpoint({
    id: 'accept_invitation',
    method: 'POST',
    path: '/organizations/invitations/{invitation_id}/accept',
    auth: 'user',
    permission: 'signed in',
    summary: "Join an organization by an invitation to the user's address",
    tag: 'organizations',
    params: z.object({ invitation_id: identifier() }),
    replies: {
      200: { description: 'The organization', schema: orgOut },
      409: refusal('The user is a member already, or the maximum number of members is reached'),
    },
  }),
  listAudit: endpoint({
    id: 'list_audit_log',
    method: 'GET',
    path: '/organizations/{org_id}/audit-log',
    auth: 'user',
    permission: 'audit.read',
    summary: 'Who changed what, when and from where, newest first',
    tag: 'organizations',
    params: orgParams,
    query: page,
    replies: {
      200: {
        description: 'A page of audit entries; `x-total-count` is the number of all entries',
        schema: z.array(auditEntryOut),
        headers: ['x-total-count'],
      },
    },
  }),
} as const;
