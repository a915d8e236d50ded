/**
 * Handlers of `contract/organizations.ts`. A handler that changes something makes its checks, the change and the audit
 * entry in one transaction. Server threads.
 */
import type { z } from 'zod';
import type { Revocations } from '../auth/revocations.ts';
import type { HandlerReply } from '../contract/handler.ts';
import type { invitationOut, ORGANIZATIONS, orgMemberOut } from '../contract/organizations.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import { type Invitation, invitationStatus, type Member, type Organization } from '../domain/account.ts';
import { isAllowed } from '../domain/permissions.ts';
import { isAtLeast } from '../domain/role.ts';
import { CatalogueError } from '../errors.ts';
import type { AccountReads, Accounts } from '../storage/ports/accounts.ts';
import { auditActor, requireOrganization, requireRole, requireUser } from './access.ts';
import { type DeletedContent, removeInTime } from './deleted-content.ts';
import { deleteOrganization } from './organization-deletion.ts';
import type { UserEpochs } from './user-epochs.ts';

interface OrganizationServices {
  accounts: Accounts;
  epochs: UserEpochs;
  revocations: Revocations;
  /** Removes the data of a deleted organization. */
  content: Pick<DeletedContent, 'remove'>;
}

type Handlers = UserHandlersOf<typeof ORGANIZATIONS>;

export function organizationHandlers(services: OrganizationServices): Handlers {
  const { accounts } = services;
  return {
    ...ownOrganizationHandlers(services),
    ...memberHandlers(services),
    ...invitationHandlers(services),

    listAudit: ({ user, params, query }) => {
      requireRole(accounts, user, params.org_id, 'audit.read');
      const { items, total } = accounts.audit.list(params.org_id, query);
      return page(items, total);
    },
  };
}

function ownOrganizationHandlers({
  accounts,
  epochs,
  revocations,
  content,
}: OrganizationServices): Pick<
  Handlers,
  | 'listOrganizations'
  | 'createOrganization'
  | 'readOrganization'
  | 'renameOrganization'
  | 'deleteOrganization'
> {
  return {
    listOrganizations: ({ user }) => {
      const all = accounts.organizations.listOf(user.id).map(({ organization }) => organization);
      return page(all, all.length);
    },

    createOrganization: async ({ user, body, request, now_ms }) => ({
      body: await accounts.transact((tx) => {
        requireUser(tx, user);
        const organization = tx.organizations.create({ name: body.name, created_by: user.id }, now_ms);
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id: organization.id,
          action: 'organization.create',
          target: organization.id,
          after: { name: organization.name },
        });
        return organization;
      }),
    }),

    readOrganization: ({ user, params }) => ({
      body: requireOrganization(accounts, user, params.org_id, 'organization.read').organization,
    }),

    renameOrganization: async ({ user, params, body, request, now_ms }) => ({
      body: await accounts.transact((tx) => {
        const { organization } = requireOrganization(tx, user, params.org_id, 'organization.rename');
        if (organization.name === body.name) return organization;
        const renamed = { ...organization, name: body.name };
        tx.organizations.put(renamed);
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id: organization.id,
          action: 'organization.rename',
          target: organization.id,
          before: { name: organization.name },
          after: { name: renamed.name },
        });
        return renamed;
      }),
    }),

    deleteOrganization: async ({ user, params, request, now_ms }) => {
      const { org_id } = params;
      const members = await accounts.transact((tx) => {
        const { organization } = requireOrganization(tx, user, org_id, 'organization.delete');
        return deleteOrganization(tx, organization, auditActor(user, request.address), now_ms);
      });
      revocations.announce(org_id);
      for (const member of members) epochs.bump(member);
      await removeInTime(content, { org_id, project_id: null });
      return { status: 204 };
    },
  };
}

function memberHandlers({
  accounts,
  revocations,
}: OrganizationServices): Pick<Handlers, 'listMembers' | 'changeMemberRole' | 'removeMember'> {
  return {
    listMembers: ({ user, params, query }) => {
      requireRole(accounts, user, params.org_id, 'members.read');
      const { items, total } = accounts.organizations.listMembers(params.org_id, query);
      return page(
        items.map((member) => showMember(accounts, member)),
        total,
      );
    },

    changeMemberRole: async ({ user, params, body, request, now_ms }) => ({
      body: await accounts.transact((tx) => {
        const own = requireRole(tx, user, params.org_id, 'members.change_role');
        const member = requireMember(tx, params);
        const touchesOwner = member.role === 'owner' || body.role === 'owner';
        if (touchesOwner && !isAllowed(own, 'owners.change')) throw new CatalogueError('forbidden');
        if (member.role === body.role) return showMember(tx, member);
        const changed = tx.organizations.changeRole(member, body.role);
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id: params.org_id,
          action: 'member.change_role',
          target: member.user_id,
          before: { role: member.role },
          after: { role: changed.role },
        });
        return showMember(tx, changed);
      }),
    }),

    removeMember: async ({ user, params, request, now_ms }) => {
      await accounts.transact((tx) => {
        const isSelf = params.member_user_id === user.id;
        const own = requireRole(tx, user, params.org_id, isSelf ? 'members.read' : 'members.remove');
        const member = requireMember(tx, params);
        if (member.role === 'owner' && !isAllowed(own, 'owners.change'))
          throw new CatalogueError('forbidden');
        tx.organizations.removeMember(member);
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id: params.org_id,
          action: 'member.remove',
          target: member.user_id,
          before: { role: member.role },
        });
      });
      revocations.announce(params.org_id);
      return { body: { removed: true } };
    },
  };
}

function invitationHandlers({
  accounts,
}: OrganizationServices): Pick<
  Handlers,
  'invite' | 'listInvitations' | 'revokeInvitation' | 'acceptInvitation'
> {
  return {
    invite: async ({ user, params, body, request, now_ms }) => ({
      body: await accounts.transact((tx) => {
        const own = requireRole(tx, user, params.org_id, 'invitations.create');
        if (!isAtLeast(own, body.role)) throw new CatalogueError('forbidden', 'The role is above your own');
        if (hasMember(tx, params.org_id, body.email))
          throw new CatalogueError('conflict', 'A member of this organization has this address already');
        const fields = { org_id: params.org_id, email: body.email, role: body.role, invited_by: user.id };
        const { invitation, created } = tx.invitations.invite(fields, now_ms);
        if (created)
          tx.audit.add(auditActor(user, request.address), now_ms, {
            org_id: params.org_id,
            action: 'invitation.create',
            target: invitation.id,
            after: { email: invitation.email, role: invitation.role },
          });
        return showInvitation(tx, invitation, now_ms);
      }),
    }),

    listInvitations: ({ user, params, query, now_ms }) => {
      requireRole(accounts, user, params.org_id, 'invitations.read');
      const { items, total } = accounts.invitations.list(params.org_id, query);
      return page(
        items.map((invitation) => showInvitation(accounts, invitation, now_ms)),
        total,
      );
    },

    revokeInvitation: async ({ user, params, request, now_ms }) => ({
      body: await accounts.transact((tx) => {
        requireRole(tx, user, params.org_id, 'invitations.revoke');
        const invitation = tx.invitations.find(params.org_id, params.invitation_id);
        if (invitation === undefined) throw new CatalogueError('not_found');
        const status = invitationStatus(invitation, now_ms);
        if (status === 'revoked') return showInvitation(tx, invitation, now_ms);
        if (status !== 'pending') throw new CatalogueError('conflict', `The invitation is ${status} already`);
        const revoked = tx.invitations.settle(invitation, 'revoked');
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id: params.org_id,
          action: 'invitation.revoke',
          target: invitation.id,
          before: { status },
          after: { status: 'revoked' },
        });
        return showInvitation(tx, revoked, now_ms);
      }),
    }),

    acceptInvitation: async (call) => ({ body: await acceptInvitation(accounts, call) }),
  };
}

function acceptInvitation(
  accounts: Accounts,
  { user, email_verified, params, request, now_ms }: Parameters<Handlers['acceptInvitation']>[0],
): Promise<Organization> {
  return accounts.transact((tx) => {
    requireUser(tx, user);
    // An unverified address does not match an invitation, because it may belong to another person.
    const invitation = email_verified
      ? tx.invitations.findPending(params.invitation_id, user.email, now_ms)
      : undefined;
    const organization = invitation && tx.organizations.find(invitation.org_id);
    if (invitation === undefined || organization === undefined) throw new CatalogueError('not_found');
    tx.organizations.addMember({ org_id: organization.id, user_id: user.id, role: invitation.role }, now_ms);
    tx.invitations.settle(invitation, 'accepted');
    tx.audit.add(auditActor(user, request.address), now_ms, {
      org_id: organization.id,
      action: 'invitation.accept',
      target: invitation.id,
      before: { status: 'pending' },
      after: { status: 'accepted', user_id: user.id, role: invitation.role },
    });
    return organization;
  });
}

/** Makes the answer with a page of a list, and with the total number in `x-total-count`. */
export function page(items: readonly unknown[], total: number): HandlerReply {
  return { body: items, headers: [['x-total-count', String(total)]] };
}

/** Describes an invitation at a given time, with the names that help the invited person decide. */
export function showInvitation(
  accounts: AccountReads,
  invitation: Invitation,
  nowMs: number,
): z.output<typeof invitationOut> {
  const inviter = accounts.users.find(invitation.invited_by);
  return {
    ...invitation,
    status: invitationStatus(invitation, nowMs),
    organization_name: accounts.organizations.find(invitation.org_id)?.name ?? '',
    inviter_name: inviter?.display_name || (inviter?.email ?? ''),
  };
}

function showMember(accounts: AccountReads, member: Member): z.output<typeof orgMemberOut> {
  const { user_id, role, joined_at } = member;
  return { user_id, email: accounts.users.find(user_id)?.email ?? '', role, joined_at };
}

function requireMember(accounts: AccountReads, params: { org_id: string; member_user_id: string }): Member {
  const member = accounts.organizations.findMember(params.org_id, params.member_user_id);
  if (member === undefined) throw new CatalogueError('not_found');
  return member;
}

function hasMember(accounts: AccountReads, org_id: string, email: string): boolean {
  for (const user_id of accounts.users.listWithEmail(email)) {
    if (accounts.organizations.findMember(org_id, user_id) !== undefined) return true;
  }
  return false;
}
