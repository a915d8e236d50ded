/**
 * The composition root of a server thread's actors: the parts for the kinds of `SERVER_KINDS`. Started by src/main.ts
 * and src/threads/server-thread-entry.ts if there is an API. Server threads.
 */

import { liveHubOf, silentLiveHub } from '../../actors/live-hub/behaviour.ts';
import { LIVE_OUTBOX_ADAPTER, sharedLiveHub } from '../../actors/live-hub/shared-behaviour.ts';
import { StepAnswersAdapter } from '../../actors/run/adapter.ts';
import { runOf, STEP_ANSWERS_ADAPTER } from '../../actors/run/behaviour.ts';
import {
  LIVE_HUB_POLICY,
  PROMISED_KINDS,
  PROMISED_TABLES,
  QUICK_KINDS,
  RUN_POLICY,
  USAGE_METER_POLICY,
} from '../../actors/supervision.ts';
import { usageMeter } from '../../actors/usage-meter/behaviour.ts';
import type { Log } from '../log.ts';
import type { ActorClient } from '../runtime/actor-client.ts';
import type { JournalStore } from '../runtime/journal.ts';
import type { AnyBehaviour, Placement } from '../runtime/protocol.ts';
import { ServerHost, type ServerHostParts } from '../runtime/server-host.ts';
import { LmdbJournal } from '../storage/lmdb/journal.ts';
import { openMainJournal, openRunReads } from '../storage/lmdb/main-store.ts';
import { type DatabasePaths, redoLogPath } from '../storage/lmdb/stores.ts';
import { LmdbTables } from '../storage/lmdb/tables.ts';
import { WriteTurn } from '../storage/lmdb/write-turn.ts';
import type { RunReads } from '../storage/ports/run-reads.ts';
import { SplitJournal } from '../storage/split-journal.ts';
import { TableRunReads } from '../storage/table-run-reads.ts';
import { LiveOutbox } from './shared-live.ts';
import { openRunsJournal } from './shared-runs.ts';

const DAY_MS = 86_400_000;

interface ServerActorsSeat {
  index: number;
  placement: Placement;
  actors: ActorClient;
  databases: DatabasePaths;
  /** Shared with the other server threads (src/storage/lmdb/write-turn.ts). */
  write_turn: SharedArrayBuffer;
  /** Whether the live stream is on. Without it, hubs keep no events. */
  has_live_stream: boolean;
  /** Days after which an event is no longer delivered; null: no limit. */
  live_event_days: number | null;
  log: Log;
  /**
   * Called when the host has restarted after a fault, so that other threads connect to it again.
   */
  onUp: () => void;
}

/**
 * Starts the host of this thread's actors.
 * @throws Error when a database cannot be opened
 */
export function startServerActors(seat: ServerActorsSeat): ServerHost {
  const { index, placement, actors, log, onUp } = seat;
  return new ServerHost({
    index,
    placement,
    client: actors,
    open: () => openParts(seat),
    onDown: (reason, restartInMs) =>
      log.error({ host: index, reason, restart_in_ms: restartInMs }, 'the actors of a server thread ended'),
    onUp,
  });
}

function openParts(seat: ServerActorsSeat): ServerHostParts {
  const { databases, has_live_stream, live_event_days, log } = seat;
  const { journal, reads, close } = openRuns(seat);
  const { hub, outbox } = openHubs(databases, has_live_stream, live_event_days);
  // Without `listTotals`, only the actors know the totals of running runs.
  const keeps_totals = reads.listTotals !== null;
  return {
    kinds: [
      { behaviour: runOf({ is_watched: has_live_stream, keeps_totals }), policy: RUN_POLICY },
      { behaviour: usageMeter, policy: USAGE_METER_POLICY },
      { behaviour: hub, policy: LIVE_HUB_POLICY },
    ],
    journal,
    adapters: {
      [STEP_ANSWERS_ADAPTER]: new StepAnswersAdapter(reads),
      ...(outbox === null ? {} : { [LIVE_OUTBOX_ADAPTER]: outbox }),
    },
    report: (report) => log.error(report, 'an actor failed'),
    dispose: async () => {
      await outbox?.close();
      await close();
    },
  };
}

/** The journal with the histories of actors, and the reader of run rows. */
interface OpenRuns {
  journal: JournalStore;
  reads: RunReads;
  close(): Promise<void>;
}

function openRuns({ index, databases, write_turn }: ServerActorsSeat): OpenRuns {
  const { seat, runs: path, data_key } = databases;
  if (seat !== undefined) {
    // All kinds of this host have their histories in this journal.
    const journal = openRunsJournal(seat);
    const reads = openRunReads(seat);
    const close = async () => {
      await journal.close();
      await reads.close();
    };
    return { journal, reads, close };
  }
  const promises = {
    path: redoLogPath(databases, index),
    kinds: PROMISED_KINDS,
    tables: PROMISED_TABLES,
    turn: new WriteTurn(write_turn, index),
  };
  const quick = new LmdbJournal(path, 'process', promises, data_key);
  const journal = new SplitJournal(openMainJournal(databases), quick, QUICK_KINDS);
  const runs = new LmdbTables(path, 'process', data_key);
  const close = async () => {
    await journal.close();
    await runs.close();
  };
  return { journal, reads: new TableRunReads(runs), close };
}

/**
 * Chooses the behaviour of the live hubs, and opens their connection to the store thread. The connection is null if
 * this box shares no database, or if the live stream is off.
 */
function openHubs(
  { seat }: DatabasePaths,
  hasStream: boolean,
  days: number | null,
): { hub: AnyBehaviour; outbox: LiveOutbox | null } {
  if (!hasStream) return { hub: silentLiveHub, outbox: null };
  if (seat === undefined) return { hub: liveHubOf(days === null ? null : days * DAY_MS), outbox: null };
  return { hub: sharedLiveHub, outbox: new LiveOutbox(seat) };
}
