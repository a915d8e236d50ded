/**
 * Audit log entries for changes over `/v1`: changes by a key, an operator or a signed-in user to an organization's
 * patterns, findings and profiles. Reports of a working agent are not such changes. Server threads.
 */
import type { ApiRequest } from '../contract/route.ts';
import type { AuditActor, AuditEntry } from '../domain/account.ts';
import { makeAuditEntry } from '../domain/audit-rows.ts';
import type { Tenant } from '../domain/tenant.ts';
import type { AuditFacts } from '../storage/accounts/audit.ts';
import type { Accounts, AccountWork } from '../storage/ports/accounts.ts';

/**
 * The actor of a request's change. Call it before the first await, because the address is gone when the client
 * disconnects.
 */
export function tenantAuditActor({ actor }: Tenant, { address }: ApiRequest): AuditActor {
  return { type: actor.type === 'static' ? 'operator' : actor.type, id: actor.id, address };
}

/** Writes the entry in the transaction of the change. */
export function writeTenantAudit(
  tx: AccountWork,
  tenant: Tenant,
  actor: AuditActor,
  facts: Omit<AuditFacts, 'org_id'>,
): void {
  tx.audit.add(actor, Date.now(), { org_id: tenant.org_id, ...facts });
}

/** The entry for a change that an actor makes; the actor writes the entry with it. */
export function makeTenantAudit(
  tenant: Tenant,
  actor: AuditActor,
  facts: Omit<AuditFacts, 'org_id'>,
): AuditEntry {
  return makeAuditEntry(actor, Date.now(), { org_id: tenant.org_id, ...facts });
}

/** Logs a change that an actor has made and stored. */
export async function logTenantChange(
  accounts: Accounts,
  tenant: Tenant,
  actor: AuditActor,
  facts: Omit<AuditFacts, 'org_id'>,
): Promise<void> {
  await accounts.transact((tx) => writeTenantAudit(tx, tenant, actor, facts));
}
