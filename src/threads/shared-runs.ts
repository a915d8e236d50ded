/**
 * The histories of runs and usage meters on a box that shares them: this thread's journal, and a guard against
 * answering requests from state that another box has taken over. Server threads.
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
 * Drops at once the actors of this thread that other boxes have taken up to the position that the view shows. Call it before
 * actors are asked for a client that has seen that position.
 */
export function catchUpRuns(): void {
  for (const client of clients) client.catchUp();
}
