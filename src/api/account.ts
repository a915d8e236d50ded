/** Handlers of `contract/account.ts`. Server threads. */
import type { z } from 'zod';
import type { ACCOUNT, bootstrapOut, userOut } from '../contract/account.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import type { User } from '../domain/account.ts';
import type { PlanCaps } from '../domain/plans.ts';
import { BOOTSTRAP_CACHE } from '../limits.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import { RecentMap } from '../std/recent-map.ts';
import { writeAudit } from '../storage/accounts/audit.ts';
import { pendingFor } from '../storage/accounts/invitations.ts';
import { organizationsOf, roleOf } from '../storage/accounts/organizations.ts';
import { getUser, putUser } from '../storage/accounts/users.ts';
import type { Tables } from '../storage/tables.ts';
import { auditActor, defaultOrganization, ownOrganization } from './access.ts';
import { showSubscription } from './billing.ts';
import { showInvitation } from './organizations.ts';
import type { UserEpochs } from './user-epochs.ts';

type Bootstrap = z.output<typeof bootstrapOut>;

export interface AccountServices {
  main: Tables;
  epochs: UserEpochs;
  plan_caps: PlanCaps;
  clock?: Clock;
}

export function accountHandlers({
  main,
  epochs,
  plan_caps,
  clock = systemClock,
}: AccountServices): UserHandlersOf<typeof ACCOUNT> {
  const cache = new RecentMap<string, { body: Bootstrap; epoch: number; fresh_until_ms: number }>(
    BOOTSTRAP_CACHE.entries,
  );

  function collect(user: User, isVerified: boolean, nowMs: number): Bootstrap {
    const org_id = defaultOrganization(main, user.id);
    return {
      profile: showUser(user),
      organizations: organizationsOf(main, user.id).map(({ organization }) => organization),
      role: org_id === null ? null : (roleOf(main, org_id, user.id) ?? null),
      subscription: org_id === null ? null : showSubscription(main, org_id, plan_caps),
      invitations: isVerified
        ? pendingFor(main, user.email, nowMs).map((invitation) => showInvitation(main, invitation, nowMs))
        : [],
    };
  }

  return {
    getMe: ({ user }) => ({ body: showUser(user) }),

    patchMe: async ({ user, body, request, now_ms }) => {
      const changed = await main.transact((tx) => {
        const present = getUser(tx, user.id) ?? user;
        const next = {
          ...present,
          ...(body.display_name === undefined ? {} : { display_name: body.display_name }),
          ...(body.account_type === undefined ? {} : { account_type: body.account_type }),
          ...(body.onboarded === undefined ? {} : { onboarded: body.onboarded }),
        };
        const [before, after] = difference(present, next);
        if (Object.keys(after).length === 0) return present;
        putUser(tx, next);
        const org_id = ownOrganization(tx, user.id);
        if (org_id !== null)
          writeAudit(tx, auditActor(user, request.address), now_ms, {
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

    bootstrap: ({ user, email_verified, now_ms }) => {
      const epoch = epochs.of(user.id);
      // Another address may be invited elsewhere.
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

/** What changed: as it was, and as it is. */
function difference(before: User, after: User): [Partial<User>, Partial<User>] {
  const changed = (Object.keys(after) as (keyof User)[]).filter((name) => before[name] !== after[name]);
  const of = (user: User) => Object.fromEntries(changed.map((name) => [name, user[name]]));
  return [of(before), of(after)];
}

function showUser({ id, email, display_name, account_type, onboarded }: User): z.output<typeof userOut> {
  return { id, email, display_name, account_type, onboarded };
}
