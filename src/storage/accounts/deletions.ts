/**
 * Records which projects, organizations and accounts were deleted while some of their data may still exist, and which
 * names must not be used again. The transaction that removes the record also records the deletion, so that an
 * interrupted deletion is continued. Any thread.
 */
import type { DeletedScope, Deletion, DeletionReads, DeletionWork } from '../ports/deletions.ts';
import type { TableReader, TableTransaction } from '../tables.ts';

/**
 * [org, project or EVERYTHING] → DeletionRow: a deleted scope, some of whose data may still exist. Rows of older
 * versions are null.
 */
const DELETIONS = 'project_deletions';
/**
 * [org, project or EVERYTHING] → time of the deletion, milliseconds since the epoch. The row is never removed, so that
 * the ids are not used again.
 */
const DELETED = 'deleted_scopes';
/** [user] → time of the deletion, milliseconds since the epoch, of an account whose data must still be removed. */
const ACCOUNT_DELETIONS = 'account_deletions';
/** Stands for the whole organization in place of a project's id. No project has this id. */
const EVERYTHING = '';

interface DeletionRow {
  at_ms: number;
  /**
   * Whether all data was searched and removed once. Data that was in transit at the time of the deletion may have
   * arrived later.
   */
  is_swept: boolean;
}

export class TableDeletionReads implements DeletionReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  *list(): Iterable<Deletion> {
    for (const { row, value } of this.#reader.range<DeletionRow | null>(DELETIONS, { prefix: [] })) {
      const project_id = row[1] === EVERYTHING ? null : String(row[1]);
      yield { org_id: String(row[0]), project_id, ...(value ?? { at_ms: 0, is_swept: false }) };
    }
  }

  wasDeleted(scope: DeletedScope): boolean {
    return this.#reader.get(DELETED, keyOf(scope)) !== undefined;
  }

  listAccounts(limit: number): string[] {
    return [...this.#reader.range(ACCOUNT_DELETIONS, { prefix: [], limit })].map(({ row }) => String(row[0]));
  }
}

export class TableDeletionWork extends TableDeletionReads implements DeletionWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  note(scope: DeletedScope, nowMs: number): void {
    const value: DeletionRow = { at_ms: nowMs, is_swept: false };
    this.#tx.write({ op: 'put', table: DELETIONS, row: keyOf(scope), value });
    this.#tx.write({ op: 'put', table: DELETED, row: keyOf(scope), value: nowMs });
  }

  noteSweep(scope: DeletedScope): void {
    const row = keyOf(scope);
    const known = this.#tx.get<DeletionRow | null>(DELETIONS, row);
    if (known != null)
      this.#tx.write({ op: 'put', table: DELETIONS, row, value: { ...known, is_swept: true } });
  }

  end(scope: DeletedScope): void {
    this.#tx.write({ op: 'remove', table: DELETIONS, row: keyOf(scope) });
  }

  noteAccount(user_id: string, nowMs: number): void {
    this.#tx.write({ op: 'put', table: ACCOUNT_DELETIONS, row: [user_id], value: nowMs });
  }

  endAccount(user_id: string): void {
    this.#tx.write({ op: 'remove', table: ACCOUNT_DELETIONS, row: [user_id] });
  }
}

function keyOf({ org_id, project_id }: DeletedScope): [org_id: string, project_id: string] {
  return [org_id, project_id ?? EVERYTHING];
}
