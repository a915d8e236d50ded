/**
 * What several boxes ask of the database that holds their common rows. Each box reads from a view of these rows
 * (view.ts). Implementations: ../postgres/truth.ts and its reference ../memory/truth.ts. Types; any thread.
 * The database numbers its commits: a position is the number of the last one. All commits have one order, and no
 * position is visible before the ones below it are decided.
 */

/** A row as stored: keys as in ../row-key.ts or of the journal, values as bytes. */
export interface StoredRow {
  /** Name of the LMDB database that holds it in a view, such as `rows:users`. */
  table: string;
  key: Buffer;
  /** null: the row was removed. */
  value: Buffer | null;
}

/** Keys that a transaction looked at: from `first` up to, but not including, `end`. */
export interface ReadRange {
  table: string;
  first: Buffer;
  end: Buffer;
}

/** A transaction that a box wants to make. */
export interface Proposal {
  /** Position of the view that it read. */
  base: number;
  /** History of the view that it read. The database cannot check reads of another history, such as before a restore. */
  history: string;
  /** If another commit after `base` changed a row in one of these ranges, this is a conflict. */
  reads: readonly ReadRange[];
  /** Each row once. */
  writes: readonly StoredRow[];
}

/** Position of the commit; null: a conflict, and nothing was written. */
export type Verdict = number | null;

/** State of the database, by which a view recognizes whether it is a view of this history. */
export interface Mark {
  position: number;
  /** Random, new with each commit: two databases with the same position but different commits have different marks. */
  token: string;
}

/** What changed since a position: for each changed row its last value. */
export interface Delta extends Mark {
  /** null: too much changed, or the changes are not known any more. The view must load everything. */
  rows: StoredRow[] | null;
}

/** The database cannot be used now. The same call may succeed later. */
export class TruthUnavailableError extends Error {
  override readonly name = 'TruthUnavailableError';
  readonly retryable = true;
  /** The cause is the database or the way to it, not a bug. */
  readonly code = 'EDATABASE';
}

/** The database does not fit this version, this configuration or this box. Trying again does not help. */
export class TruthRefusedError extends Error {
  override readonly name = 'TruthRefusedError';
  readonly code = 'EDATABASE';
}

/** One box's connection. Its calls must follow each other: the next one begins after the last one has ended. */
export interface TruthSession {
  /** What became of the last batch of this box, on whichever session; null before the first. */
  readonly last_batch: { number: number; verdicts: readonly Verdict[] } | null;
  /**
   * Decides the proposals in their order, all in one statement, and reads what has changed.
   * @param batch number of the last batch plus one
   * @param since the view's position
   * @throws TruthUnavailableError if it is unknown whether the batch was decided: the next session's `last_batch` says
   */
  commit(
    batch: number,
    proposals: readonly Proposal[],
    since: number,
  ): Promise<{ verdicts: Verdict[]; delta: Delta }>;
  /** Reads what has changed. @throws TruthUnavailableError */
  follow(since: number): Promise<Delta>;
  /**
   * Reads all rows as of one position, in pieces. The rows of a table follow each other, in the order of their keys.
   * @throws TruthUnavailableError, or what `onRows` throws
   */
  load(onRows: (rows: StoredRow[]) => void): Promise<Mark>;
  /** Whether the database had this mark at some time; false also if that was too long ago. @throws TruthUnavailableError */
  knows(mark: Mark): Promise<boolean>;
  /** Forgets what no box needs any more. @throws TruthUnavailableError */
  tidy(): Promise<void>;
  /** Ends the session at once. A running call rejects. */
  close(): Promise<void>;
}

export interface Truth {
  /** Identifies the database's content over all its life; rows are sealed for it. */
  readonly identity: string;
  /**
   * Opens the session of a box, and ends its earlier ones: whatever these still send is refused.
   * @param box identifies the process; a restarted process is another box
   * @param onHint called after commits of any box, perhaps too often, and not after every one
   * @throws TruthUnavailableError, TruthRefusedError
   */
  open(box: string, onHint: () => void): Promise<TruthSession>;
}
