/**
 * The journal of this thread on a box that shares runs and usage meters, and a guard that drops
 * actors which another box has taken over, so that no request is answered from their outdated
 * state. Server threads.
 */
import type { JournalStore } from '../runtime/journal.ts';
import { RUN_TABLES } from '../storage/shared/run-places.ts';
import { RunsClient } from '../storage/shared/runs-client.ts';
import { SharedRunsJournal } from '../storage/shared/runs-journal.ts';
import type { StoreSeat } from '../storage/shared/seat.ts';

/** The clients of this thread's open journals; more than one only while a host restarts. */
const clients = new Set<RunsClient>();

export function openRunsJournal(seat: StoreSeat): JournalStore {
  const client = new RunsClient(seat, (actors) => journal.noteLost(actors));
  const journal = new SharedRunsJournal(client, RUN_TABLES);
  clients.add(client);
  const settle = journal.close.bind(journal);
  return Object.assign(journal, {
    close: async () => {
      await settle();
      clients.delete(client);
      await client.close();
    },
  });
}

/**
 * Drops the actors of this thread that other boxes have taken over up to the current position of
 * the view. Call it before asking actors for a client that has seen that position.
 */
export function catchUpRuns(): void {
  for (const client of clients) client.catchUp();
}
