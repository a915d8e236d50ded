/**
 * Projects, organizations and accounts that were deleted and whose data may not be removed completely, and the names
 * that must not be used again. The transaction that removes the record also notes the deletion, so an interrupted
 * deletion is continued. Functions that run in a transaction. Any thread.
 */
import type { TableReader, TableTransaction } from '../tables.ts';

/**
 * [org, project or EVERYTHING] → DeletionRow: a scope whose data may not be removed completely. Rows of older
 * versions are null.
 */
const DELETIONS = 'project_deletions';
/**
 * [org, project or EVERYTHING] → time of the deletion, milliseconds since the epoch. The name is never used again.
 */
const DELETED = 'deleted_scopes';
/** [user] → time of the deletion, milliseconds since the epoch. Data that the account sent is still to be removed. */
const ACCOUNT_DELETIONS = 'account_deletions';
/** Stands for a whole organization. No project has this name. */
const EVERYTHING = '';

interface DeletionRow {
  at_ms: number;
  /**
   * Whether all data was searched once. Data that was in transit at the time of the deletion may have arrived
   * since.
   */
  is_swept: boolean;
}

/** A project, or an organization with all of its projects. */
export interface DeletedScope {
  org_id: string;
  /** null: the whole organization. */
  project_id: string | null;
}

/** A deletion that may have left data behind. */
export interface Deletion extends DeletedScope, DeletionRow {}

/** Notes a deletion, in the transaction that removes the record. */
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

/** Notes that all data was searched once. A second search finds data that arrived late. */
export function noteSweep(tx: TableTransaction, scope: DeletedScope): void {
  const row = keyOf(scope);
  const known = tx.get<DeletionRow | null>(DELETIONS, row);
  if (known != null) tx.write({ op: 'put', table: DELETIONS, row, value: { ...known, is_swept: true } });
}

/** Ends a deletion: no data is left, and none can arrive any more. */
export function endDeletion(tx: TableTransaction, scope: DeletedScope): void {
  tx.write({ op: 'remove', table: DELETIONS, row: keyOf(scope) });
}

/** Whether the scope existed and was deleted. */
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
