/** Handlers of `contract/account.ts`. Server threads. */
import type { z } from 'zod';
import type { Revocations } from '../auth/revocations.ts';
import type { ACCOUNT, bootstrapOut, userOut } from '../contract/account.ts';
import type { HandlerReply } from '../contract/handler.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import type { User } from '../domain/account.ts';
import type { PlanCaps } from '../domain/plans.ts';
import { CatalogueError } from '../errors.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import { RecentMap } from '../std/recent-map.ts';
import type { AccountReads, Accounts } from '../storage/ports/accounts.ts';
import type { Membership } from '../storage/ports/organizations.ts';
import { auditActor, defaultOrganization, ownOrganization, requireUser } from './access.ts';
import { showSubscription } from './billing.ts';
import { type DeletedContent, removeInTime } from './deleted-content.ts';
import { deleteOrganization } from './organization-deletion.ts';
import { showInvitation } from './organizations.ts';
import type { UserEpochs } from './user-epochs.ts';

/** Maximum number of answers of /auth/bootstrap that a thread caches, and for how long (document 1, Limits). */
const BOOTSTRAP_CACHE = { entries: 10_000, fresh_ms: 10_000 } as const;

/** Maximum number of organizations that a refusal names. */
const NAMED_AT_MOST = 5;

type Bootstrap = z.output<typeof bootstrapOut>;

interface AccountServices {
  accounts: Accounts;
  epochs: UserEpochs;
  revocations: Revocations;
  /** Removes the data of a deleted organization. */
  content: Pick<DeletedContent, 'remove'>;
  plan_caps: PlanCaps;
  clock?: Clock;
}

export function accountHandlers(services: AccountServices): UserHandlersOf<typeof ACCOUNT> {
  const { accounts, epochs, plan_caps, clock = systemClock } = services;
  const cache = new RecentMap<string, { body: Bootstrap; epoch: number; fresh_until_ms: number }>(
    BOOTSTRAP_CACHE.entries,
  );

  function collect(user: User, isVerified: boolean, nowMs: number): Bootstrap {
    const org_id = defaultOrganization(accounts, user.id);
    return {
      profile: showUser(user),
      organizations: accounts.organizations.listOf(user.id).map(({ organization }) => organization),
      role: org_id === null ? null : (accounts.organizations.roleOf(org_id, user.id) ?? null),
      subscription: org_id === null ? null : showSubscription(accounts, org_id, plan_caps),
      invitations: isVerified
        ? accounts.invitations
            .listPending(user.email, nowMs)
            .filter(({ org_id }) => accounts.organizations.find(org_id) !== undefined)
            .map((invitation) => showInvitation(accounts, invitation, nowMs))
        : [],
    };
  }

  return {
    getMe: ({ user }) => ({ body: showUser(user) }),

    patchMe: async ({ user, body, request, now_ms }) => {
      const changed = await accounts.transact((tx) => {
        const present = requireUser(tx, user);
        const next = {
          ...present,
          ...(body.display_name === undefined ? {} : { display_name: body.display_name }),
          ...(body.account_type === undefined ? {} : { account_type: body.account_type }),
          ...(body.onboarded === undefined ? {} : { onboarded: body.onboarded }),
        };
        const [before, after] = difference(present, next);
        if (Object.keys(after).length === 0) return present;
        tx.users.put(next);
        const org_id = ownOrganization(tx, user.id);
        if (org_id !== null)
          tx.audit.add(auditActor(user, request.address), now_ms, {
            org_id,
            action: 'user.update',
            target: user.id,
            before,
            after,
          });
        return next;
      });
      return { body: showUser(changed) };
    },

    deleteMe: (call) => deleteAccount(services, call),

    bootstrap: ({ user, email_verified, now_ms }) => {
      const epoch = epochs.of(user.id);
      // The key contains the address, because each address has its own invitations.
      const key = `${user.id} ${email_verified} ${user.email}`;
      const known = cache.get(key);
      const nowMs = clock.monotonicMs();
      if (known !== undefined && known.epoch === epoch && known.fresh_until_ms > nowMs)
        return { body: known.body };
      const body = collect(user, email_verified, now_ms);
      cache.set(key, { body, epoch, fresh_until_ms: nowMs + BOOTSTRAP_CACHE.fresh_ms });
      return { body };
    },
  };
}

/**
 * Deletes the account and all organizations of which the user is the only member, and ends the user's other
 * memberships. Rejects with a CatalogueError `conflict` for a user who is the only owner of an organization with other
 * members, and for an organization that cannot be deleted ({@link deleteOrganization}).
 */
async function deleteAccount(
  { accounts, revocations, content }: AccountServices,
  { user, identity, request, now_ms }: Parameters<UserHandlersOf<typeof ACCOUNT>['deleteMe']>[0],
): Promise<HandlerReply> {
  const actor = auditActor(user, request.address);
  const { deleted, left } = await accounts.transact((tx) => {
    requireUser(tx, user);
    const own = tx.organizations.listOf(user.id);
    checkHandedOver(tx, own, user.id);
    const isAlone = ({ organization }: Membership) => tx.organizations.countMembers(organization.id) === 1;
    const [deleted, left] = [own.filter(isAlone), own.filter((organization) => !isAlone(organization))];
    for (const { organization } of own)
      tx.audit.add(actor, now_ms, { org_id: organization.id, action: 'user.delete', target: user.id });
    for (const { organization } of deleted) deleteOrganization(tx, organization, actor, now_ms);
    for (const { organization } of left)
      tx.organizations.removeMember(tx.organizations.findMember(organization.id, user.id)!);
    tx.users.remove(user, identity, now_ms);
    tx.deletions.noteAccount(user.id, now_ms);
    return { deleted, left };
  });
  for (const { organization } of [...deleted, ...left]) revocations.announce(organization.id);
  await Promise.all(
    deleted.map(({ organization }) => removeInTime(content, { org_id: organization.id, project_id: null })),
  );
  return { status: 204 };
}

/**
 * Refuses the deletion of a user whom other members need as an owner.
 * @throws CatalogueError `conflict` if the user is the only owner of an organization with other members
 */
function checkHandedOver(accounts: AccountReads, own: readonly Membership[], user_id: string): void {
  const kept = own.filter(
    ({ organization: { id } }) =>
      accounts.organizations.countMembers(id) > 1 && accounts.organizations.isOnlyOwner(id, user_id),
  );
  if (kept.length === 0) return;
  const names = kept.slice(0, NAMED_AT_MOST).map(({ organization: { name, id } }) => `${name} (${id})`);
  const more = kept.length > NAMED_AT_MOST ? ` and ${kept.length - NAMED_AT_MOST} more` : '';
  throw new CatalogueError(
    'conflict',
    `You are the only owner of ${names.join(', ')}${more}: first make another member an owner, or delete the organization`,
  );
}

/** Returns the fields that differ, before and after the change. */
function difference(before: User, after: User): [Partial<User>, Partial<User>] {
  const changed = (Object.keys(after) as (keyof User)[]).filter((name) => before[name] !== after[name]);
  const of = (user: User) => Object.fromEntries(changed.map((name) => [name, user[name]]));
  return [of(before), of(after)];
}

function showUser({ id, email, display_name, account_type, onboarded }: User): z.output<typeof userOut> {
  return { id, email, display_name, account_type, onboarded };
}
