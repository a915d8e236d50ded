/**
 * Memberships of users in organizations, from the control plane's records, for JWTs on `/v1`. Server threads.
 */
import type { MembershipReader } from '../auth/membership.ts';
import { systemClock } from '../std/clock.ts';
import { roleOf } from '../storage/accounts/organizations.ts';
import { findUserId } from '../storage/accounts/users.ts';
import type { TableReader } from '../storage/tables.ts';

export function tableMemberships(tables: TableReader): MembershipReader {
  return {
    roleOf: (identity, org_id) => {
      const user_id = findUserId(tables, identity, systemClock.wallMs());
      const role = user_id === undefined ? undefined : roleOf(tables, org_id, user_id);
      return role === undefined ? null : { user_id: user_id!, role };
    },
  };
}
