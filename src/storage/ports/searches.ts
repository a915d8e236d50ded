/** Searches that users saved. Types; any thread. */
import type { Member } from '../../domain/account.ts';

export type SearchOwner = Pick<Member, 'org_id' | 'user_id'>;

export interface SavedSearch {
  id: string;
  /** The query in the language of docs/queries.md. */
  query: string;
  saved_at: string;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface SearchReads {
  /** Lists the searches of a user, the oldest first. */
  list(owner: SearchOwner): SavedSearch[];
}

/** What a transaction may do. */
export interface SearchWork extends SearchReads {
  /**
   * Saves a search, unless the user has saved the same query before.
   * @returns the new search, or the existing one with the same query
   * @throws CatalogueError `conflict` if the user has the maximum number of searches
   */
  save(owner: SearchOwner, query: string, nowMs: number): SavedSearch;
  /** Removes a search. @returns false if the user has no such search */
  remove(owner: SearchOwner, id: string): boolean;
  /** Removes the searches of a user who leaves the organization. */
  removeAllOf(owner: SearchOwner): void;
}
