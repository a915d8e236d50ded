/** Projects, organizations and accounts that were deleted. Types; any thread. */

/** A project, or an organization with all of its projects. */
export interface DeletedScope {
  org_id: string;
  /** null: the whole organization. */
  project_id: string | null;
}

/** A deletion after which some data may still exist. */
export interface Deletion extends DeletedScope {
  at_ms: number;
  /**
   * Whether all data was searched and removed once. Data that was in transit at the time of the deletion may have
   * arrived later.
   */
  is_swept: boolean;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface DeletionReads {
  /** Lists the deletions that have not ended, in the order of their scopes' ids. */
  list(): Iterable<Deletion>;
  /** Whether the scope existed and was deleted. */
  wasDeleted(scope: DeletedScope): boolean;
  listAccounts(limit: number): string[];
}

/** What a transaction may do. */
export interface DeletionWork extends DeletionReads {
  /** Notes a deletion, in the transaction that removes the record. */
  note(scope: DeletedScope, nowMs: number): void;
  /** Records that all data was searched once. A second search finds data that arrived late. */
  noteSweep(scope: DeletedScope): void;
  /** Ends a deletion, after which no data exists or can arrive any more. */
  end(scope: DeletedScope): void;
  noteAccount(user_id: string, nowMs: number): void;
  endAccount(user_id: string): void;
}
