/**
 * What several boxes ask of the database that holds their common runs: who owns an actor, its history, and the rows that
 * only a query reads. Rows that every box follows go where all common rows are (truth.ts). Implementations:
 * ../postgres/runs.ts and its reference ../memory/runs.ts. Types; any thread.
 * An actor has one owner, a box. Each taking of it has a greater number, its term. Commits name the term; those of a
 * former term change nothing. So safety depends on no clock.
 */
import type { ReadRange, StoredRow, TruthRefusedError } from './truth.ts';

/**
 * Table of common rows that say which actors have changed their box: the key is the actor, then the new term in 48 bits.
 * There is no value, so no view stores them. A box that has reached their position knows what it has lost.
 */
export const OWNERS = 'owners';

/** A range of rows to remove, or only its first ones. */
export interface RowRemoval extends ReadRange {
  limit: number | null;
}

/** Changes of rows that only a query reads: first the removals in their order, then the rows, each of which is there once. */
export interface RowPhase {
  removals: readonly RowRemoval[];
  rows: readonly StoredRow[];
}

/** What is added to a counter. */
export interface Count {
  table: string;
  key: Buffer;
  name: string;
  by: number;
}

/** All changes by one actor, all or nothing. */
export interface ActorCommit {
  /** Its address, which begins the keys of its history; none begins another. */
  actor: Buffer;
  term: number;
  /** Follow each other. */
  phases: readonly RowPhase[];
  /** Rows that every box follows, each once. */
  common: readonly StoredRow[];
  counts: readonly Count[];
}

export interface RunsOutcome {
  /** Which of the commits (from 0) are of a former term: nothing of them was stored. */
  lost: readonly number[];
  /** Position of the common rows; null: there were none. */
  position: number | null;
}

/** An actor that this box owns from now on. */
export interface TakenActor {
  term: number;
  /** Position from which every box knows of it; null: no other box had the actor. */
  position: number | null;
  /** Its rows of `snapshots` and of `journal`, in the order of their keys. */
  rows: StoredRow[];
  /** Why its rows cannot be read; then `rows` is empty. */
  damage: TruthRefusedError | null;
}

/** The counters of a row, summed over all boxes. */
export interface SummedRow {
  key: Buffer;
  counts: Record<string, number>;
}

/**
 * One box's connection for runs. Calls of `take` and `commit` may be made without waiting for the last one, and take effect in
 * their order.
 */
export interface RunsSession {
  /** What became of the last batch of this box, on whichever session; null before the first. */
  readonly last_batch: ({ number: number } & RunsOutcome) | null;
  /**
   * Makes the box the owner of actors, and reads their histories, all in one statement. Each actor may be there once.
   * @returns null for an actor that another box has taken so recently that it could not work yet: ask again soon
   * @throws TruthUnavailableError; then the box may own them, under a term that it does not know
   */
  take(actors: readonly Buffer[]): Promise<(TakenActor | null)[]>;
  /**
   * Stores the commits whose terms are present, all in one statement. Each actor may be there once.
   * @param batch number of the last batch plus one
   * @throws TruthUnavailableError if it is unknown whether the batch was stored: the next session's `last_batch` says
   */
  commit(batch: number, commits: readonly ActorCommit[]): Promise<RunsOutcome>;
  /** The values of rows that only a query reads; null for a missing one. @throws TruthUnavailableError */
  readRows(table: string, keys: readonly Buffer[]): Promise<(Buffer | null)[]>;
  /** The first rows of a range, or its last ones with `reverse`. @throws TruthUnavailableError */
  readRange(range: ReadRange, limit: number, reverse: boolean): Promise<StoredRow[]>;
  /** The counters in a range, in the order of their keys. @throws TruthUnavailableError */
  sumCounts(range: ReadRange): Promise<SummedRow[]>;
  /** Forgets what no box needs any more. @throws TruthUnavailableError */
  tidy(): Promise<void>;
  /** Ends the session at once. A running call rejects. */
  close(): Promise<void>;
}

export interface RunsTruth {
  /**
   * Opens the session of a box, and ends its earlier ones: whatever these still send is refused.
   * @param box identifies the process; a restarted process is another box, which owns nothing
   * @throws TruthUnavailableError, TruthRefusedError
   */
  open(box: string): Promise<RunsSession>;
}
