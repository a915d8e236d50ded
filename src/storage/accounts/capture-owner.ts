/**
 * Whose monitor runs speak about captured runs. A captured run and a monitor run belong together by their id, and an id is no
 * secret: without this rule, an organization could report the failure of another's run. Functions of a transaction. Any thread.
 */

import { isAtLeast } from '../../domain/role.ts';
import type { CaptureOwner } from '../../domain/run-mark.ts';
import type { TableReader } from '../tables.ts';
import { getOrganization, roleOf } from './organizations.ts';
import { findUserId, getUser, usersWithEmail } from './users.ts';

/**
 * Whether the outcomes that an organization reports count for captured runs. With GW_ORG, those of that organization do. Without
 * it, captures are the operator's: then outcomes count of organizations that an operator owns or administers, and of those
 * without an account, which only the command line and static keys make.
 * @param main null where there is no such database: then there are no accounts
 */
export function speaksOfCaptures(main: TableReader | null, owner: CaptureOwner, org_id: string): boolean {
  if (owner.org !== null) return org_id === owner.org;
  if (main === null || getOrganization(main, org_id) === undefined) return true;
  for (const user_id of operatorsOf(main, owner)) {
    const role = roleOf(main, org_id, user_id);
    if (role !== undefined && isAtLeast(role, 'admin')) return true;
  }
  return false;
}

function* operatorsOf(main: TableReader, { emails, owner }: CaptureOwner): Iterable<string> {
  const first = owner === null ? undefined : findUserId(main, { ...owner, issued_at_s: null }, Infinity);
  if (first !== undefined) yield first;
  for (const email of emails)
    for (const user_id of usersWithEmail(main, email))
      if (getUser(main, user_id)?.email_verified === true) yield user_id;
}
