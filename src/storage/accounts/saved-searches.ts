/**
 * Searches that users saved over an organization's runs; each user sees only their own. The functions run in a
 * transaction. Any thread. Bound: SEARCHES_PER_MEMBER_MAX for each user in an organization.
 */
import { ulidAt } from '../../std/id.ts';
import type { SavedSearch, SearchOwner, SearchReads, SearchWork } from '../ports/searches.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { requireRoom } from './room.ts';

/** [org, user, id] → SavedSearch. */
export const SAVED_SEARCHES = 'saved_searches';
const SEARCHES_PER_MEMBER_MAX = 50;

export class TableSearchReads implements SearchReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  list({ org_id, user_id }: SearchOwner): SavedSearch[] {
    return [...this.#reader.range<SavedSearch>(SAVED_SEARCHES, { prefix: [org_id, user_id] })].map(
      ({ value }) => value,
    );
  }
}

export class TableSearchWork extends TableSearchReads implements SearchWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  save(owner: SearchOwner, query: string, nowMs: number): SavedSearch {
    const present = this.list(owner);
    const same = present.find((search) => search.query === query);
    if (same !== undefined) return same;
    requireRoom(present.length, SEARCHES_PER_MEMBER_MAX, 'saved searches');
    const search = { id: `srch_${ulidAt(nowMs)}`, query, saved_at: new Date(nowMs).toISOString() };
    const row = [owner.org_id, owner.user_id, search.id];
    this.#tx.write({ op: 'put', table: SAVED_SEARCHES, row, value: search });
    return search;
  }

  remove({ org_id, user_id }: SearchOwner, id: string): boolean {
    const row = [org_id, user_id, id];
    if (this.#tx.get<SavedSearch>(SAVED_SEARCHES, row) === undefined) return false;
    this.#tx.write({ op: 'remove', table: SAVED_SEARCHES, row });
    return true;
  }

  removeAllOf(owner: SearchOwner): void {
    for (const { id } of this.list(owner)) this.remove(owner, id);
  }
}
