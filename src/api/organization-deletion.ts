/**
 * Deletes an organization in the caller's transaction: its record, its members, and everything that grants access.
 * Server threads.
 */
import type { AuditActor, Organization } from '../domain/account.ts';
import { CatalogueError } from '../errors.ts';
import type { AccountWork } from '../storage/ports/accounts.ts';

/**
 * Deletes the organization, revokes its keys, and writes the audit entry.
 * @returns the ids of its former members
 * @throws CatalogueError `conflict` while its subscription renews
 */
export function deleteOrganization(
  tx: AccountWork,
  { id, name }: Organization,
  actor: AuditActor,
  nowMs: number,
): string[] {
  if (tx.subscriptions.hasRenewal(id))
    throw new CatalogueError(
      'conflict',
      `${name} has a paid subscription that renews: cancel it first, under Billing`,
    );
  const keys = [...tx.keys.listLive(id, null, nowMs)];
  for (const key of keys) tx.keys.end(key.id, { revoked_at: new Date(nowMs).toISOString() });
  const members = tx.organizations.remove(id, nowMs);
  tx.audit.add(actor, nowMs, {
    org_id: id,
    action: 'organization.delete',
    target: id,
    before: { name, members: members.length },
    after: { keys_revoked: keys.map((key) => key.id) },
  });
  return members;
}
