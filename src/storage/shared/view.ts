/**
 * One box's copy of the common rows (truth.ts), from which it reads. It is as of one position, and may be deleted at
 * any time. Implementation: ../lmdb/view.ts. Any thread.
 */
import type { JournalWrite, StoredActor } from '../../runtime/journal.ts';
import type { Tables, TableTransaction } from '../tables.ts';
import type { Mark, ReadRange, StoredRow } from './truth.ts';

/** A transaction, tried on the view. */
export interface Attempt<Value> {
  value: Value;
  /** The position at which it read. */
  base: number;
  history: string;
  reads: ReadRange[];
  writes: StoredRow[];
}

/** The history of an actor has continued on another box, so what this box knows of it is out of date. */
export class StaleActorError extends Error {
  override readonly name = 'StaleActorError';

  constructor(kind: string) {
    super(`${kind}: its history has continued on another box`);
  }
}

export interface View {
  /** Reads rows as of the view's position. */
  readonly tables: Pick<Tables, 'get' | 'range' | 'snapshot'>;
  /** null: the content is unusable, also if the first load has not ended. */
  readonly mark: Mark | null;
  /** Random, new after each load of another history: see `Proposal`. */
  readonly history: string;
  /**
   * Runs a transaction without storing its writes.
   * @throws what `work` throws
   */
  attempt<Value>(work: (transaction: TableTransaction) => Value): Attempt<Value>;
  /**
   * The same for writes of a journal.
   * @throws StaleActorError
   */
  attemptWrites(writes: readonly JournalWrite[]): Attempt<void>;
  /** Reads an actor's history. @throws Error if the view cannot be read */
  load(kind: string, key: string): StoredActor;
  /** Applies what changed since the view's position, all or nothing. */
  apply(rows: readonly StoredRow[], mark: Mark): void;
  /** Begins to load everything. A view with a mark continues to show its former rows until `endLoad`. */
  beginLoad(): void;
  /** Adds rows, in the order in which `TruthSession.load` brings them. */
  fill(rows: readonly StoredRow[]): void;
  /**
   * Shows what was loaded, and nothing else, all or nothing.
   * @param isOtherHistory whether positions from before do not compare: the database does not know the former mark
   */
  endLoad(mark: Mark, isOtherHistory: boolean): void;
  close(): Promise<void>;
}
