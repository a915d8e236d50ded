/** The audit log: one entry for every change, written in the change's own transaction, never changed. Any thread. */
import type { AuditActor, AuditEntry } from '../../domain/account.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { countRow, type Page, readNewest } from './page.ts';

const AUDIT = 'audit';

/** What a change tells of itself; `before` and `after` hold no secrets. */
export interface AuditFacts {
  org_id: string;
  action: string;
  target: string;
  before?: AuditEntry['before'];
  after?: AuditEntry['after'];
}

export function writeAudit(tx: TableTransaction, actor: AuditActor, nowMs: number, facts: AuditFacts): void {
  const entry: AuditEntry = {
    id: `aud_${ulidAt(nowMs)}`,
    org_id: facts.org_id,
    actor: actor.id,
    actor_type: actor.type,
    action: facts.action,
    target: facts.target,
    before: facts.before ?? null,
    after: facts.after ?? null,
    address: actor.address,
    created_at: new Date(nowMs).toISOString(),
  };
  tx.write({ op: 'put', table: AUDIT, row: [entry.org_id, entry.id], value: entry });
  countRow(tx, AUDIT, [entry.org_id], 1);
}

/** Newest first. */
export function listAudit(tables: TableReader, org_id: string, page: Page) {
  return readNewest<AuditEntry>(tables, AUDIT, [org_id], page);
}
