/**
 * Decides whose monitor runs may report the outcome of a captured run. A monitor run belongs to the captured run with
 * the same id. Ids are not secret, so without this check an organization could report another organization's run as
 * failed. Any thread.
 */

import { isAtLeast } from '../../domain/role.ts';
import type { CaptureOwner } from '../../domain/run-mark.ts';
import type { AccountReads } from '../ports/accounts.ts';

type People = Pick<AccountReads, 'users' | 'organizations'>;

/**
 * Whether the outcomes that an organization reports count for captured runs.
 * With GW_ORG, only the outcomes of that organization count. Without it, captures belong to the operator. In that case
 * outcomes count if an operator owns or administers the organization, or if the organization has no row in the database
 * (organizations of the command line and of static keys have none).
 * @param accounts null if their database does not exist, so that there are no accounts
 */
export function speaksOfCaptures(accounts: People | null, owner: CaptureOwner, org_id: string): boolean {
  if (owner.org !== null) return org_id === owner.org;
  if (accounts === null || accounts.organizations.find(org_id) === undefined) return true;
  for (const user_id of operatorsOf(accounts, owner)) {
    const role = accounts.organizations.roleOf(org_id, user_id);
    if (role !== undefined && isAtLeast(role, 'admin')) return true;
  }
  return false;
}

function* operatorsOf({ users }: People, { emails, owner }: CaptureOwner): Iterable<string> {
  const first = owner === null ? undefined : users.findId({ ...owner, issued_at_s: null }, Infinity);
  if (first !== undefined) yield first;
  for (const email of emails)
    for (const user_id of users.listWithEmail(email))
      if (users.find(user_id)?.email_verified === true) yield user_id;
}
