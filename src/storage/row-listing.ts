/**
 * Lists rows that an earlier version stored without lists. It does so once a database, in small transactions, in
 * the background; rows that are written meanwhile are listed already. Server threads.
 */
import { RUN_LISTS, type RunListRow, runListKeys } from '../domain/run-list.ts';
import { RUNS, type RunRow } from '../domain/run-rows.ts';
import {
  TRACE_LISTS,
  TRACES,
  type TraceListRow,
  type TraceRow,
  traceListKeys,
} from '../domain/trace-rows.ts';
import { RUN_LISTING_ROWS } from '../limits.ts';
import type { RowKey } from '../runtime/protocol.ts';
import type { Row, Tables } from './tables.ts';

/** How far it has come: key [table of the lists]. */
export const LISTINGS = 'listings';

interface Listing {
  /** Key of the last row that is in its lists; null: none yet. */
  after: (string | number)[] | null;
  is_done: boolean;
}

/** Which rows belong into which lists. */
interface ListingPlan<Value> {
  table: string;
  lists: string;
  keysOf(row: Row<Value>): readonly RowKey[];
  /** What stands in a list of a row. */
  listed(value: Value): unknown;
}

/** Runs, in the database of runs. */
export const RUN_LISTING: ListingPlan<RunRow> = {
  table: RUNS,
  lists: RUN_LISTS,
  keysOf: ({ value }) =>
    runListKeys(value, { started_at_ms: Date.parse(value.started_at), run_id: value.run_id }),
  listed: ({ project_id }): RunListRow => ({ project_id }),
};

/** Traces, in the main database. */
export const TRACE_LISTING: ListingPlan<TraceRow> = {
  table: TRACES,
  lists: TRACE_LISTS,
  keysOf: ({ row, value }) =>
    traceListKeys(
      { org_id: row[0] as string, project_id: value.project_id, trace_id: value.trace_id },
      Date.parse(value.submitted_at),
    ),
  listed: ({ project_id }): TraceListRow => ({ project_id }),
};

/**
 * @param isStopped asked between transactions
 * @throws Error what the store throws; it goes on with the next start
 */
export async function listOldRows<Value>(
  tables: Tables,
  { table, lists, keysOf, listed }: ListingPlan<Value>,
  isStopped: () => boolean,
): Promise<void> {
  for (let isDone = false; !isDone && !isStopped(); ) {
    isDone = await tables.transact((tx) => {
      const { after, is_done } = tx.get<Listing>(LISTINGS, [lists]) ?? { after: null, is_done: false };
      if (is_done) return true;
      const range = { prefix: [], limit: RUN_LISTING_ROWS, ...(after === null ? {} : { after }) };
      const rows = [...tx.range<Value>(table, range)];
      for (const row of rows) {
        const value = listed(row.value);
        for (const key of keysOf(row)) tx.write({ op: 'put', table: lists, row: key, value });
      }
      const listing: Listing = { after: rows.at(-1)?.row ?? after, is_done: rows.length < RUN_LISTING_ROWS };
      tx.write({ op: 'put', table: LISTINGS, row: [lists], value: listing });
      return listing.is_done;
    });
    // Others of the thread have their time between.
    await new Promise((resolve) => setImmediate(resolve));
  }
}
