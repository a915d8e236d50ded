/**
 * Adds list entries for rows of earlier versions, which did not write the lists that this version reads. This happens
 * once per database, in small transactions in the background. Rows that this version writes are in the lists from the
 * start. Server threads; the capture reader and the command line check whether it has finished.
 */
import { RUN_LISTS, type RunListRow, runListKeys } from '../domain/run-list.ts';
import { RUN_OUTCOMES, RUNS, type RunRow } from '../domain/run-rows.ts';
import {
  TRACE_LISTS,
  TRACES,
  type TraceListRow,
  type TraceRow,
  traceListKeys,
} from '../domain/trace-rows.ts';
import type { RowKey } from '../runtime/protocol.ts';
import type { Row, TableReader, Tables } from './tables.ts';

/** Maximum number of rows that one transaction adds to the lists. */
export const RUN_LISTING_ROWS = 500;

/** Table with the progress of listings; key: [table of the lists]. */
export const LISTINGS = 'listings';

interface Listing {
  /** Key of the last row added to the lists; null before the first. */
  after: (string | number)[] | null;
  is_done: boolean;
}

/** Which rows belong in which lists. */
interface ListingPlan<Value> {
  table: string;
  lists: string;
  keysOf(row: Row<Value>): readonly RowKey[];
  /** Returns the value stored in a list for a row. */
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

/** Outcomes of finished runs, by run id. */
export const OUTCOME_LISTING: ListingPlan<RunRow> = {
  table: RUNS,
  lists: RUN_OUTCOMES,
  keysOf: ({ value: { status, run_id, org_id } }) => (status === 'finished' ? [[run_id, org_id]] : []),
  listed: ({ outcome }): string => outcome,
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

/** Whether all rows of an earlier version are in the lists. */
export function isListed(tables: TableReader, { lists }: Pick<ListingPlan<never>, 'lists'>): boolean {
  return tables.get<Listing>(LISTINGS, [lists])?.is_done === true;
}

/**
 * Adds the rows of an earlier version to the lists, from where an earlier call ended.
 * @param isStopped called between transactions; true ends the work
 * @throws Error from the store; the listing continues at the next start
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
    // Let other work on this thread run between transactions.
    await new Promise((resolve) => setImmediate(resolve));
  }
}
