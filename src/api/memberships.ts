/**
 * Memberships of users in organizations, from the control plane's records, for JWTs on `/v1`. Server threads.
 */
import type { MembershipReader } from '../auth/membership.ts';
import { systemClock } from '../std/clock.ts';
import type { AccountReads } from '../storage/ports/accounts.ts';

export function tableMemberships(accounts: AccountReads): MembershipReader {
  return {
    roleOf: (identity, org_id) => {
      const user_id = accounts.users.findId(identity, systemClock.wallMs());
      const role = user_id === undefined ? undefined : accounts.organizations.roleOf(org_id, user_id);
      return role === undefined ? null : { user_id: user_id!, role };
    },
  };
}
