/**
 * The rows of the audit log, written together with a change: by a transaction, or by an actor with its event.
 * Pure except for the id of an entry; any thread.
 */
import { ulidAt } from '../std/id.ts';
import type { AuditActor, AuditEntry } from './account.ts';

/** [org, entry] → AuditEntry, counted by organization. */
export const AUDIT = 'audit';
/** In `runs.mdb`, [org, entry]: entries that are not copied to the log yet. */
export const AUDIT_OUTBOX = 'audit_outbox';
/** [table, first parts of its keys…] → {n}: the number of rows of a list. */
export const LIST_COUNTS = 'list_counts';

/** The description of a change; `before` and `after` contain no secrets. */
export interface AuditFacts {
  org_id: string;
  action: string;
  target: string;
  before?: AuditEntry['before'];
  after?: AuditEntry['after'];
}

type PutWrite = { op: 'put'; table: string; row: string[]; value: unknown };
type AddWrite = { op: 'add'; table: string; row: string[]; counts: { n: number } };

export function makeAuditEntry(actor: AuditActor, nowMs: number, facts: AuditFacts): AuditEntry {
  return {
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
}

/** Makes the rows of an entry in `main.mdb`. */
export function auditWrites(entry: AuditEntry): [PutWrite, AddWrite] {
  return [
    { op: 'put', table: AUDIT, row: [entry.org_id, entry.id], value: entry },
    { op: 'add', table: LIST_COUNTS, row: [AUDIT, entry.org_id], counts: { n: 1 } },
  ];
}

/**
 * Makes the row of an entry in `runs.mdb`, for the transaction of the change; `carryAudit` copies the entry to the log.
 */
export function outboxWrite(entry: AuditEntry): PutWrite {
  return { op: 'put', table: AUDIT_OUTBOX, row: [entry.org_id, entry.id], value: entry };
}
