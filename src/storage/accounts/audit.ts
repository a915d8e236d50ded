/**
 * The audit log. The transaction that makes a change also writes its entry. An entry about runs is written to the rows
 * of runs first, and copied to the log later (`carryAudit`). Entries never change. Any thread.
 */
import type { AuditActor, AuditEntry } from '../../domain/account.ts';
import { AUDIT, type AuditFacts, auditWrites, makeAuditEntry } from '../../domain/audit-rows.ts';
import type { AuditReads, AuditWork } from '../ports/audit.ts';
import type { Page } from '../ports/page.ts';
import type { Stores } from '../ports/stores.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { readNewest } from './page.ts';

export type { AuditFacts } from '../../domain/audit-rows.ts';

/** Maximum number of entries copied to the log in one transaction. */
const CARRIED_ENTRIES = 200;

/**
 * Copies entries that were written with changes of runs to the log. Each entry is copied exactly once, even if
 * the copying is interrupted.
 * @param org_id null: of all organizations
 * @throws Error of a store; the next call copies the remaining entries
 */
export async function carryAudit(
  { accounts, run_records }: Pick<Stores, 'accounts' | 'run_records'>,
  org_id: string | null,
): Promise<void> {
  for (;;) {
    const waiting = run_records.listAudit(org_id, CARRIED_ENTRIES);
    if (waiting.length === 0) return;
    await accounts.transact(({ audit }) => {
      for (const entry of waiting) audit.take(entry);
    });
    await run_records.forgetAudit(waiting);
  }
}

export class TableAuditReads implements AuditReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  list(org_id: string, page: Page) {
    return readNewest<AuditEntry>(this.#reader, AUDIT, [org_id], page);
  }
}

export class TableAuditWork extends TableAuditReads implements AuditWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  add(actor: AuditActor, nowMs: number, facts: AuditFacts): void {
    for (const write of auditWrites(makeAuditEntry(actor, nowMs, facts))) this.#tx.write(write);
  }

  take(entry: AuditEntry): void {
    if (this.#tx.get(AUDIT, [entry.org_id, entry.id]) !== undefined) return;
    for (const write of auditWrites(entry)) this.#tx.write(write);
  }
}
