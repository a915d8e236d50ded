/**
 * Brings runs into the lists that an earlier version has stored without them. Once a database, in small transactions, in
 * the background; a run that is started meanwhile is in its lists already. Server threads.
 */
import { RUN_LISTS, type RunListRow, runListKeys } from '../domain/run-list.ts';
import { RUNS, type RunRow } from '../domain/run-rows.ts';
import { RUN_LISTING_ROWS } from '../limits.ts';
import type { Tables } from './tables.ts';

/** How far it has come: key ['run_lists']. */
const LISTINGS = 'listings';

interface Listing {
  /** Key of the last run that is in its lists; null: none yet. */
  after: (string | number)[] | null;
  is_done: boolean;
}

/**
 * @param isStopped asked between transactions
 * @throws Error what the store throws; it goes on with the next start
 */
export async function listOldRuns(tables: Tables, isStopped: () => boolean): Promise<void> {
  for (let isDone = false; !isDone && !isStopped(); ) {
    isDone = await tables.transact((tx) => {
      const { after, is_done } = tx.get<Listing>(LISTINGS, [RUN_LISTS]) ?? { after: null, is_done: false };
      if (is_done) return true;
      const range = { prefix: [], limit: RUN_LISTING_ROWS, ...(after === null ? {} : { after }) };
      const rows = [...tx.range<RunRow>(RUNS, range)];
      for (const { value } of rows) {
        const { project_id, run_id, started_at } = value;
        for (const row of runListKeys(value, { started_at_ms: Date.parse(started_at), run_id })) {
          const listed: RunListRow = { project_id };
          tx.write({ op: 'put', table: RUN_LISTS, row, value: listed });
        }
      }
      const listing: Listing = { after: rows.at(-1)?.row ?? after, is_done: rows.length < RUN_LISTING_ROWS };
      tx.write({ op: 'put', table: LISTINGS, row: [RUN_LISTS], value: listing });
      return listing.is_done;
    });
    // Others of the thread have their time between.
    await new Promise((resolve) => setImmediate(resolve));
  }
}
