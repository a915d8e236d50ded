/**
 * One box's copy of the shared rows (truth.ts), from which it reads. A view shows one position. It can be deleted and
 * loaded again. Implementation: ../lmdb/view.ts. Any thread.
 */
import type { JournalWrite, StoredActor } from '../../runtime/journal.ts';
import type { Tables, TableTransaction } from '../tables.ts';
import type { Mark, ReadRange, StoredRow } from './truth.ts';

/** The result of a transaction that was run on the view. */
export interface Attempt<Value> {
  value: Value;
  /** Position and history of the view that the transaction read. */
  base: number;
  history: string;
  reads: ReadRange[];
  writes: StoredRow[];
}

/** The history of an actor has continued on another box, so the history on this box is out of date. */
export class StaleActorError extends Error {
  override readonly name = 'StaleActorError';

  constructor(kind: string) {
    super(`${kind}: its history has continued on another box`);
  }
}

export interface View {
  /** Reads rows as of the view's position. */
  readonly tables: Pick<Tables, 'get' | 'range' | 'snapshot'>;
  /** null: the content cannot be used, for example because the first load is not complete. */
  readonly mark: Mark | null;
  /** A random text that changes with each load of another history (`Proposal.history`). */
  readonly history: string;
  /**
   * Runs a transaction without storing its writes.
   * @throws what `work` throws
   */
  attempt<Value>(work: (transaction: TableTransaction) => Value): Attempt<Value>;
  /**
   * Runs writes of a journal without storing them.
   * @throws StaleActorError
   */
  attemptWrites(writes: readonly JournalWrite[]): Attempt<void>;
  /** Reads an actor's history. @throws Error if the view cannot be read */
  load(kind: string, key: string): StoredActor;
  /** Applies the changes since the view's position in one transaction. */
  apply(rows: readonly StoredRow[], mark: Mark): void;
  /** Begins to load everything. A view with a mark continues to show its former rows until `endLoad`. */
  beginLoad(): void;
  /** Adds rows, in the order in which `TruthSession.load` passes them. */
  fill(rows: readonly StoredRow[]): void;
  /**
   * Replaces all rows by the loaded rows in one transaction.
   * @param isOtherHistory whether the database does not know the former mark, so that earlier positions cannot be
   * compared with later ones
   */
  endLoad(mark: Mark, isOtherHistory: boolean): void;
  close(): Promise<void>;
}
