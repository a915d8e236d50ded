/** Who belongs to which organization, for JWTs on `/v1`: out of the control plane's records. Server threads. */
import type { MembershipReader } from '../auth/membership.ts';
import { roleOf } from '../storage/accounts/organizations.ts';
import { findUserId } from '../storage/accounts/users.ts';
import type { TableReader } from '../storage/tables.ts';

export function tableMemberships(tables: TableReader): MembershipReader {
  return {
    roleOf: ({ issuer, subject }, org_id) => {
      const user_id = findUserId(tables, issuer, subject);
      const role = user_id === undefined ? undefined : roleOf(tables, org_id, user_id);
      return role === undefined ? null : { user_id: user_id!, role };
    },
  };
}
