/**
 * Entries of the audit log for changes that come over `/v1`: what a key, an operator or a signed-in user changed in an
 * organization's patterns, findings and profiles. What an agent reports while it works is no such change. Server
 * threads.
 */
import type { ApiRequest } from '../contract/route.ts';
import type { AuditActor, AuditEntry } from '../domain/account.ts';
import { makeAuditEntry } from '../domain/audit-rows.ts';
import type { Tenant } from '../domain/tenant.ts';
import { type AuditFacts, writeAudit } from '../storage/accounts/audit.ts';
import type { Tables, TableTransaction } from '../storage/tables.ts';

/** Who a request's change is logged as. To be asked before anything is awaited: a client that leaves takes its address along. */
export function tenantAuditActor({ actor }: Tenant, { address }: ApiRequest): AuditActor {
  return { type: actor.type === 'static' ? 'operator' : actor.type, id: actor.id, address };
}

/** In the change's own transaction. */
export function writeTenantAudit(
  tx: TableTransaction,
  tenant: Tenant,
  actor: AuditActor,
  facts: Omit<AuditFacts, 'org_id'>,
): void {
  writeAudit(tx, actor, Date.now(), { org_id: tenant.org_id, ...facts });
}

/** The entry of a change that an actor makes and writes with it. */
export function makeTenantAudit(
  tenant: Tenant,
  actor: AuditActor,
  facts: Omit<AuditFacts, 'org_id'>,
): AuditEntry {
  return makeAuditEntry(actor, Date.now(), { org_id: tenant.org_id, ...facts });
}

/** After a change that an actor has made and stored. */
export async function logTenantChange(
  main: Tables,
  tenant: Tenant,
  actor: AuditActor,
  facts: Omit<AuditFacts, 'org_id'>,
): Promise<void> {
  await main.transact((tx) => writeTenantAudit(tx, tenant, actor, facts));
}
