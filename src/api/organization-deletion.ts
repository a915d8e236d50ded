/**
 * Deletes an organization in the caller's transaction: its record, its members, and everything that grants access.
 * Server threads.
 */
import { endKey, liveKeysOf } from '../auth/key-store.ts';
import type { AuditActor, Organization } from '../domain/account.ts';
import { CatalogueError } from '../errors.ts';
import { writeAudit } from '../storage/accounts/audit.ts';
import { removeOrganization } from '../storage/accounts/organizations.ts';
import { hasRenewal } from '../storage/accounts/subscriptions.ts';
import type { TableTransaction } from '../storage/tables.ts';

/**
 * @returns the ids of its former members
 * @throws CatalogueError `conflict` while its subscription renews
 */
export function deleteOrganization(
  tx: TableTransaction,
  { id, name }: Organization,
  actor: AuditActor,
  nowMs: number,
): string[] {
  if (hasRenewal(tx, id))
    throw new CatalogueError(
      'conflict',
      `${name} has a paid subscription that renews: cancel it first, under Billing`,
    );
  const keys = [...liveKeysOf(tx, id, null, nowMs)];
  for (const key of keys) endKey(tx, key.id, { revoked_at: new Date(nowMs).toISOString() });
  const members = removeOrganization(tx, id, nowMs);
  writeAudit(tx, actor, nowMs, {
    org_id: id,
    action: 'organization.delete',
    target: id,
    before: { name, members: members.length },
    after: { keys_revoked: keys.map((key) => key.id) },
  });
  return members;
}
