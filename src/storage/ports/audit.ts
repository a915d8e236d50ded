/** The audit log. Types; any thread. */
import type { AuditActor, AuditEntry } from '../../domain/account.ts';
import type { AuditFacts } from '../../domain/audit-rows.ts';
import type { Listing, Page } from './page.ts';

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface AuditReads {
  /** Lists the entries of an organization's log, newest first. */
  list(org_id: string, page: Page): Listing<AuditEntry>;
}

/** What a transaction may do. */
export interface AuditWork extends AuditReads {
  add(actor: AuditActor, nowMs: number, facts: AuditFacts): void;
  /** Adds an entry that was written elsewhere, unless the log has it. */
  take(entry: AuditEntry): void;
}
