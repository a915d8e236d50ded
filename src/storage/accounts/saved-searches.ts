/**
 * Searches that users saved over an organization's runs; each user sees only their own. Functions that run in a
 * transaction. Any thread. Bound: SAVED_SEARCHES for each user and organization.
 */
import type { Member } from '../../domain/account.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { requireRoom } from './room.ts';

/** [org, user, id] → SavedSearch. */
export const SAVED_SEARCHES = 'saved_searches';
const SEARCHES_PER_MEMBER_MAX = 50;

type Owner = Pick<Member, 'org_id' | 'user_id'>;

interface SavedSearch {
  id: string;
  /** The query in the language of docs/queries.md. */
  query: string;
  saved_at: string;
}

/** The oldest first. */
export function listSearches(tables: TableReader, { org_id, user_id }: Owner): SavedSearch[] {
  return [...tables.range<SavedSearch>(SAVED_SEARCHES, { prefix: [org_id, user_id] })].map(
    ({ value }) => value,
  );
}

/**
 * @returns the search; the present one if the same query is saved already
 * @throws CatalogueError `conflict` when the user has the maximum number of them
 */
export function saveSearch(tx: TableTransaction, owner: Owner, query: string, nowMs: number): SavedSearch {
  const present = listSearches(tx, owner);
  const same = present.find((search) => search.query === query);
  if (same !== undefined) return same;
  requireRoom(present.length, SEARCHES_PER_MEMBER_MAX, 'saved searches');
  const search = { id: `srch_${ulidAt(nowMs)}`, query, saved_at: new Date(nowMs).toISOString() };
  const row = [owner.org_id, owner.user_id, search.id];
  tx.write({ op: 'put', table: SAVED_SEARCHES, row, value: search });
  return search;
}

/** @returns false if the user has no such search */
export function removeSearch(tx: TableTransaction, { org_id, user_id }: Owner, id: string): boolean {
  const row = [org_id, user_id, id];
  if (tx.get<SavedSearch>(SAVED_SEARCHES, row) === undefined) return false;
  tx.write({ op: 'remove', table: SAVED_SEARCHES, row });
  return true;
}

/** Removes the searches of someone who leaves the organization. */
export function removeSearchesOf(tx: TableTransaction, owner: Owner): void {
  for (const { id } of listSearches(tx, owner)) removeSearch(tx, owner, id);
}
