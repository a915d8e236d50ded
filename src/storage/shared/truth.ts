/**
 * The interface of the database with the shared rows of several boxes (the *truth*). Each box reads from a view of
 * these rows (view.ts). Implementations: ../postgres/truth.ts and, for tests, ../memory/truth.ts. Types; any thread.
 * The database numbers its commits: a position is the number of the last commit. Commits are totally ordered, and a
 * position is visible only after all lower positions.
 */

/** A row as stored: keys as in ../row-key.ts or of the journal, values as bytes. */
export interface StoredRow {
  /** Name of the LMDB database that holds it in a view, such as `rows:users`. */
  table: string;
  key: Buffer;
  /** null: the row was removed. */
  value: Buffer | null;
}

/** Keys that a transaction read: from `first` (inclusive) to `end` (exclusive). */
export interface ReadRange {
  table: string;
  first: Buffer;
  end: Buffer;
}

/** A transaction that a box wants to make. */
export interface Proposal {
  /** Position of the view that the transaction read. */
  base: number;
  /**
   * History of the view that the transaction read. The database cannot check reads of another history, such as the one
   * before a restore.
   */
  history: string;
  /** If another commit after `base` changed a row in one of these ranges, the proposal has a conflict. */
  reads: readonly ReadRange[];
  /** Each row once. */
  writes: readonly StoredRow[];
}

/** Position of the commit; null: there was a conflict, and nothing was written. */
export type Verdict = number | null;

/** Identifies a state of the database. A view uses its mark to find out whether the database still has this history. */
export interface Mark {
  position: number;
  /** Random, new with each commit: two databases with the same position but different commits have different marks. */
  token: string;
}

/** The rows that changed since a position, with their last values. */
export interface Delta extends Mark {
  /** null: too much changed, or the changes are not known any more. The view must load everything. */
  rows: StoredRow[] | null;
}

/** The database cannot be used now. The same call may succeed later. */
export class TruthUnavailableError extends Error {
  override readonly name = 'TruthUnavailableError';
  readonly retryable = true;
  /** Marks an error of the database or the connection, which is not a bug. */
  readonly code = 'EDATABASE';
}

/** The database does not match this version, this configuration or this box. A retry does not help. */
export class TruthRefusedError extends Error {
  override readonly name = 'TruthRefusedError';
  readonly code = 'EDATABASE';
}

/** The connection of a box. It runs one call at a time: begin the next call after the last one has ended. */
export interface TruthSession {
  /** The outcome of the last batch of this box, in any session; null before the first. */
  readonly last_batch: { number: number; verdicts: readonly Verdict[] } | null;
  /**
   * Decides the proposals in their order, all in one statement, and reads what has changed.
   * @param batch number of the last batch plus one
   * @param since the view's position
   * @throws TruthUnavailableError if it is unknown whether the batch was decided; `last_batch` of the next session then
   * shows it
   */
  commit(
    batch: number,
    proposals: readonly Proposal[],
    since: number,
  ): Promise<{ verdicts: Verdict[]; delta: Delta }>;
  /** Reads what has changed. @throws TruthUnavailableError */
  follow(since: number): Promise<Delta>;
  /**
   * Reads all rows as of one position, in pieces. The rows of a table come one after the other, in the order of their
   * keys.
   * @throws TruthUnavailableError, or what `onRows` throws
   */
  load(onRows: (rows: StoredRow[]) => void): Promise<Mark>;
  /**
   * Whether the database had this mark at some time; false also if that was too long ago. @throws TruthUnavailableError
   */
  knows(mark: Mark): Promise<boolean>;
  /** Removes data that no box needs any more. @throws TruthUnavailableError */
  tidy(): Promise<void>;
  /** Ends the session at once. A running call rejects. */
  close(): Promise<void>;
}

export interface Truth {
  /** Identifies the database's content as long as it exists. Rows are encrypted for this identity. */
  readonly identity: string;
  /**
   * Opens the session of a box, and ends its earlier sessions, whose calls are then refused.
   * @param box identifies the process; a restarted process is another box
   * @param onHint called after commits of other boxes. Calls may be missing, or come without a commit
   * @throws TruthUnavailableError, TruthRefusedError
   */
  open(box: string, onHint: () => void): Promise<TruthSession>;
}
