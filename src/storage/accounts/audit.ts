/**
 * The audit log. Each change writes one entry in its own transaction, and entries never change. Any thread.
 */
import type { AuditActor, AuditEntry } from '../../domain/account.ts';
import {
  AUDIT,
  AUDIT_OUTBOX,
  type AuditFacts,
  auditWrites,
  makeAuditEntry,
} from '../../domain/audit-rows.ts';
import type { AuditReads, AuditWork } from '../ports/audit.ts';
import type { Page } from '../ports/page.ts';
import type { Stores } from '../stores.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { readNewest } from './page.ts';

export type { AuditFacts } from '../../domain/audit-rows.ts';

/** Maximum number of entries copied to the log in one transaction. */
const CARRIED_ENTRIES = 200;

/**
 * Copies entries that were written with changes in `runs.mdb` to the log. Each entry is copied exactly once, even if
 * the copying is interrupted.
 * @param org_id null: of all organizations
 * @throws Error of a store; the next call copies the remaining entries
 */
export async function carryAudit({ main, runs }: Stores, org_id: string | null): Promise<void> {
  const prefix = org_id === null ? [] : [org_id];
  for (;;) {
    const waiting = [...runs.range<AuditEntry>(AUDIT_OUTBOX, { prefix, limit: CARRIED_ENTRIES })];
    if (waiting.length === 0) return;
    await main.transact((tx) => {
      for (const { row, value } of waiting) {
        if (tx.get(AUDIT, row) !== undefined) continue;
        for (const write of auditWrites(value)) tx.write(write);
      }
    });
    await runs.transact((tx) => {
      for (const { row } of waiting) tx.write({ op: 'remove', table: AUDIT_OUTBOX, row });
    });
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
}
