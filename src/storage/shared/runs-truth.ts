/**
 * The interface of the database with the runs of several boxes: owners of actors, histories, and rows that are read
 * only by queries. Rows that every box follows are among the shared rows (truth.ts). Implementations:
 * ../postgres/runs.ts and, for tests, ../memory/runs.ts. Types; any thread.
 * An actor has one owner, a box. Each take-over gives the actor a greater number, the term. Commits contain the term,
 * and a commit of a former term has no effect. So safety does not depend on clocks.
 */
import type { ReadRange, StoredRow, TruthRefusedError } from './truth.ts';

/**
 * Table of shared rows that say which actors have changed their box: the key is the actor, then the new term in 48
 * bits. The rows have no values, so views do not store them. A box that follows up to their position knows which actors
 * it has lost.
 */
export const OWNERS = 'owners';

/** A range of rows to remove. */
export interface RowRemoval extends ReadRange {
  /** Only the first rows of the range, at most this many; null: all. */
  limit: number | null;
}

/** Changes of rows that are read only by queries: first the removals in order, then the rows, each key once. */
export interface RowPhase {
  removals: readonly RowRemoval[];
  rows: readonly StoredRow[];
}

/** An addition to a counter. */
export interface Count {
  table: string;
  key: Buffer;
  name: string;
  by: number;
}

/** The changes of one actor, which are stored together or not at all. */
export interface ActorCommit {
  /** The actor's address, with which the keys of its history begin. No address is the beginning of another one. */
  actor: Buffer;
  term: number;
  /** Applied one after the other. */
  phases: readonly RowPhase[];
  /** Rows that every box follows, each once. */
  common: readonly StoredRow[];
  counts: readonly Count[];
}

export interface RunsOutcome {
  /** Indexes (from 0) of the commits with a former term, of which nothing was stored. */
  lost: readonly number[];
  /** Position at which the shared rows of the batch were stored; null: it stored no shared rows. */
  position: number | null;
}

/** An actor that this box owns from now on. */
export interface TakenActor {
  term: number;
  /** Position of the shared rows that reports the take-over; null: no other box owned the actor. */
  position: number | null;
  /** Its rows of `snapshots` and of `journal`, in the order of their keys. */
  rows: StoredRow[];
  /** Why the actor's rows cannot be read, in which case `rows` is empty; null: they can. */
  damage: TruthRefusedError | null;
}

/** The counters of a row, summed over all boxes. */
export interface SummedRow {
  key: Buffer;
  counts: Record<string, number>;
}

/**
 * One box's connection for runs. `take` and `commit` may be called before the previous call has ended; the calls take
 * effect in their order.
 */
export interface RunsSession {
  /** The outcome of the last batch of this box, in any session; null before the first. */
  readonly last_batch: ({ number: number } & RunsOutcome) | null;
  /**
   * Makes the box the owner of actors, and reads their histories, all in one statement.
   * @param actors each at most once
   * @returns null for an actor that another box has taken so recently that it could not work yet: try again soon
   * @throws TruthUnavailableError; the box may then own the actors, for terms that it does not know
   */
  take(actors: readonly Buffer[]): Promise<(TakenActor | null)[]>;
  /**
   * Stores, in one statement, those commits whose term is the present term of their actor.
   * @param batch number of the last batch plus one
   * @param commits at most one of each actor
   * @throws TruthUnavailableError if it is unknown whether the batch was stored; `last_batch` of the next session then
   * shows it
   */
  commit(batch: number, commits: readonly ActorCommit[]): Promise<RunsOutcome>;
  /** Reads the values of rows that only a query reads; null for a missing one. @throws TruthUnavailableError */
  readRows(table: string, keys: readonly Buffer[]): Promise<(Buffer | null)[]>;
  /** Reads the first rows of a range, or its last ones with `reverse`. @throws TruthUnavailableError */
  readRange(range: ReadRange, limit: number, reverse: boolean): Promise<StoredRow[]>;
  /**
   * Sums the counters in a range over all boxes. The rows are in the order of their keys.
   * @throws TruthUnavailableError
   */
  sumCounts(range: ReadRange): Promise<SummedRow[]>;
  /** Removes data that no box needs any more. @throws TruthUnavailableError */
  tidy(): Promise<void>;
  /** Ends the session at once. A running call rejects. */
  close(): Promise<void>;
}

export interface RunsTruth {
  /**
   * Opens the session of a box, and ends its earlier sessions, whose calls are then refused.
   * @param box identifies the process; a restarted process is another box, which owns nothing
   * @throws TruthUnavailableError, TruthRefusedError
   */
  open(box: string): Promise<RunsSession>;
}
