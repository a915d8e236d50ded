/**
 * Opens the main database for a thread of the service. It is `main.mdb`, or a view of the rows that several boxes
 * share; commits to a view go through the store thread. Any thread.
 */
import type { JournalStore } from '../../runtime/journal.ts';
import type { RunReads } from '../ports/run-reads.ts';
import { SharedJournal } from '../shared/journal.ts';
import { SharedRunReads } from '../shared/run-reads.ts';
import { RunsClient } from '../shared/runs-client.ts';
import { SeatState, type StoreSeat } from '../shared/seat.ts';
import { StoreClient } from '../shared/store-client.ts';
import type { ChangedRow } from '../shared/store-protocol.ts';
import { SharedTables } from '../shared/tables.ts';
import type { Tables } from '../tables.ts';
import { LmdbJournal } from './journal.ts';
import { LmdbTables } from './tables.ts';
import { LmdbView } from './view.ts';

/**
 * If the view is older than this, the shared database counts as unreachable. Even an idle box polls the database four
 * times a second.
 */
const AWAY_MS = 2_000;

/** Paths and key of the databases in DATA_DIR: plain data that threads receive to open them. */
export interface DatabasePaths {
  main: string;
  runs: string;
  /** The key that encrypts them. Secret; null: no encryption. */
  data_key: Uint8Array | null;
  /**
   * The connection to the store thread on a box that shares its rows. If it is given, both paths are the path of the
   * view, and rows are written through the seat. If it is omitted, the files at the paths are read and written
   * directly.
   */
  seat?: StoreSeat;
}

/**
 * Opens the tables of the main database for this thread.
 * @param onChanged called with the rows of patterns and findings that other boxes changed; null: any rows may have
 *   changed. Never called on a box that does not share its rows.
 * @throws Error if a file cannot be opened
 */
export function openMainTables(
  { main, data_key, seat }: DatabasePaths,
  onChanged?: (rows: ChangedRow[] | null) => Promise<void>,
): Tables {
  if (seat === undefined) return new LmdbTables(main, 'disk', data_key);
  const view = LmdbView.attach(main, seat.identity, data_key);
  const client = new StoreClient(seat, onChanged === undefined ? {} : { onChanged });
  const tables = new SharedTables(view, client);
  return Object.assign(tables, {
    close: async () => {
      await client.close();
      await view.close();
    },
  });
}

/** Opens the journal of the main database for this thread. @throws Error if a file cannot be opened */
export function openMainJournal({ main, data_key, seat }: DatabasePaths): JournalStore {
  if (seat === undefined) return new LmdbJournal(main, 'disk', null, data_key);
  const view = LmdbView.attach(main, seat.identity, data_key);
  const client = new StoreClient(seat);
  const journal = new SharedJournal(view, client);
  const settle = journal.close.bind(journal);
  return Object.assign(journal, {
    close: async () => {
      await settle();
      await client.close();
      await view.close();
    },
  });
}

/** Opens the connection through which a box that shares its rows reads runs and usage from the shared database. */
export function openRunReads(seat: StoreSeat): RunReads {
  const state = new SeatState(seat.state);
  return new SharedRunReads(new RunsClient(seat), () => state.stale_ms > AWAY_MS);
}
