/**
 * Audit log entries for changes over `/v1`: a key, an operator or a signed-in user changes or deletes data of an
 * organization, such as patterns, findings, profiles and runs. Reports of a working agent are not such changes. Server
 * threads.
 */
import type { ApiRequest } from '../contract/route.ts';
import type { AuditActor, AuditEntry } from '../domain/account.ts';
import { makeAuditEntry } from '../domain/audit-rows.ts';
import type { Tenant } from '../domain/tenant.ts';
import type { AuditFacts } from '../storage/accounts/audit.ts';
import type { Accounts, AccountWork } from '../storage/ports/accounts.ts';

/**
 * Returns who makes the change of a request, for the audit log. Call it before the first await, because the address is
 * gone when the client disconnects.
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

/**
 * Makes the entry for a change that an actor of the service makes, such as the run's actor: this actor writes the entry
 * together with the change.
 * @param actor who asked for the change
 */
export function makeTenantAudit(
  tenant: Tenant,
  actor: AuditActor,
  facts: Omit<AuditFacts, 'org_id'>,
): AuditEntry {
  return makeAuditEntry(actor, Date.now(), { org_id: tenant.org_id, ...facts });
}

/** Logs a change that an actor of the service has already stored. */
export async function logTenantChange(
  accounts: Accounts,
  tenant: Tenant,
  actor: AuditActor,
  facts: Omit<AuditFacts, 'org_id'>,
): Promise<void> {
  await accounts.transact((tx) => writeTenantAudit(tx, tenant, actor, facts));
}
