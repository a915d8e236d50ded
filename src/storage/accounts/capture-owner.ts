/**
 * Decides whose monitor runs may report the outcome of a captured run. A monitor run belongs to the captured run with
 * the same id, and ids are not secret: without this rule, an organization could report another organization's run as
 * failed. Functions that run in a transaction. Any thread.
 */

import { isAtLeast } from '../../domain/role.ts';
import type { CaptureOwner } from '../../domain/run-mark.ts';
import type { TableReader } from '../tables.ts';
import { getOrganization, roleOf } from './organizations.ts';
import { findUserId, getUser, usersWithEmail } from './users.ts';

/**
 * Whether the outcomes that an organization reports count for captured runs.
 * With GW_ORG, only the outcomes of that organization count. Without it, captures belong to the operator. Then the
 * outcomes count if an operator owns or administers the organization, or if the organization has no account (only the
 * command line and static keys make such organizations).
 * @param main null if that database does not exist: then there are no accounts
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
