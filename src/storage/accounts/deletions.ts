/**
 * Deleted projects, organizations and accounts whose rest is still to go, and the names that are gone for good. The note of a
 * deletion is written with the removal of the record, so nothing that cuts the rest short is forgotten. Functions of a
 * transaction. Any thread.
 */
import type { TableReader, TableTransaction } from '../tables.ts';

/** [org, project or EVERYTHING] → DeletionRow: what it held may not be all gone. Rows of older versions are null. */
const DELETIONS = 'project_deletions';
/** [org, project or EVERYTHING] → when, milliseconds since the epoch: the name is never used again. */
const DELETED = 'deleted_scopes';
/** [user] → when, milliseconds since the epoch: what the account has sent is still to go. */
const ACCOUNT_DELETIONS = 'account_deletions';
/** Stands for a whole organization; no project is called so. */
const EVERYTHING = '';

interface DeletionRow {
  at_ms: number;
  /** All was looked through once; what was on its way at the moment of the deletion may have come since. */
  is_swept: boolean;
}

/** A project, or an organization with all of its projects. */
export interface DeletedScope {
  org_id: string;
  /** null: the whole organization. */
  project_id: string | null;
}

/** One that may have left something behind. */
export interface Deletion extends DeletedScope, DeletionRow {}

/** With the removal of its record. */
export function noteDeletion(tx: TableTransaction, scope: DeletedScope, nowMs: number): void {
  const value: DeletionRow = { at_ms: nowMs, is_swept: false };
  tx.write({ op: 'put', table: DELETIONS, row: keyOf(scope), value });
  tx.write({ op: 'put', table: DELETED, row: keyOf(scope), value: nowMs });
}

/** Oldest names first. */
export function* listDeletions(tables: TableReader): Iterable<Deletion> {
  for (const { row, value } of tables.range<DeletionRow | null>(DELETIONS, { prefix: [] })) {
    const project_id = row[1] === EVERYTHING ? null : String(row[1]);
    yield { org_id: String(row[0]), project_id, ...(value ?? { at_ms: 0, is_swept: false }) };
  }
}

/** All was looked through: what comes late is looked for once more. */
export function noteSweep(tx: TableTransaction, scope: DeletedScope): void {
  const row = keyOf(scope);
  const known = tx.get<DeletionRow | null>(DELETIONS, row);
  if (known != null) tx.write({ op: 'put', table: DELETIONS, row, value: { ...known, is_swept: true } });
}

/** Nothing of it is left, and nothing can come any more. */
export function endDeletion(tx: TableTransaction, scope: DeletedScope): void {
  tx.write({ op: 'remove', table: DELETIONS, row: keyOf(scope) });
}

/** Whether it was there once and is not any more. */
export function wasDeleted(tables: TableReader, scope: DeletedScope): boolean {
  return tables.get(DELETED, keyOf(scope)) !== undefined;
}

export function noteAccountDeletion(tx: TableTransaction, user_id: string, nowMs: number): void {
  tx.write({ op: 'put', table: ACCOUNT_DELETIONS, row: [user_id], value: nowMs });
}

export function listAccountDeletions(tables: TableReader, limit: number): string[] {
  return [...tables.range(ACCOUNT_DELETIONS, { prefix: [], limit })].map(({ row }) => String(row[0]));
}

export function endAccountDeletion(tx: TableTransaction, user_id: string): void {
  tx.write({ op: 'remove', table: ACCOUNT_DELETIONS, row: [user_id] });
}

function keyOf({ org_id, project_id }: DeletedScope): [org_id: string, project_id: string] {
  return [org_id, project_id ?? EVERYTHING];
}
