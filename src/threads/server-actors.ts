/**
 * The composition root of a front thread's actors: what the kinds of `FRONT_KINDS` need. Started by src/main.ts and
 * src/threads/server-thread-entry.ts where there is an API. Front threads.
 */

import { liveHub, silentLiveHub } from '../../actors/live-hub/behaviour.ts';
import { run, STEP_ANSWERS_PORT, unwatchedRun } from '../../actors/run/behaviour.ts';
import { StepAnswersPort } from '../../actors/run/port.ts';
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
import type { Front } from '../runtime/front.ts';
import { FrontHost, type FrontHostParts } from '../runtime/front-host.ts';
import type { Placement } from '../runtime/protocol.ts';
import { LmdbJournal } from '../storage/lmdb/journal.ts';
import { type DatabasePaths, redoLogPath } from '../storage/lmdb/stores.ts';
import { LmdbTables } from '../storage/lmdb/tables.ts';
import { SplitJournal } from '../storage/split-journal.ts';

export interface FrontHostSeat {
  index: number;
  placement: Placement;
  front: Front;
  databases: DatabasePaths;
  /** Somebody may read the live stream; otherwise its hubs keep nothing. */
  has_live_stream: boolean;
  log: Log;
  /** It lives again after a fault: other threads link themselves to it anew. */
  onUp: () => void;
}

/** @throws Error when a database cannot be opened */
export function startFrontHost(seat: FrontHostSeat): FrontHost {
  const { index, placement, front, log, onUp } = seat;
  return new FrontHost({
    index,
    placement,
    front,
    open: () => openParts(seat),
    onDown: (reason, restartInMs) =>
      log.error({ host: index, reason, restart_in_ms: restartInMs }, 'the actors of a front thread ended'),
    onUp,
  });
}

function openParts({ index, databases, has_live_stream, log }: FrontHostSeat): FrontHostParts {
  const journal = new SplitJournal(
    new LmdbJournal(databases.main, 'disk', null, databases.data_key),
    new LmdbJournal(
      databases.runs,
      'process',
      { path: redoLogPath(databases, index), kinds: PROMISED_KINDS, tables: PROMISED_TABLES },
      databases.data_key,
    ),
    QUICK_KINDS,
  );
  const runs = new LmdbTables(databases.runs, 'process', databases.data_key);
  return {
    kinds: [
      { behaviour: has_live_stream ? run : unwatchedRun, policy: RUN_POLICY },
      { behaviour: usageMeter, policy: USAGE_METER_POLICY },
      { behaviour: has_live_stream ? liveHub : silentLiveHub, policy: LIVE_HUB_POLICY },
    ],
    journal,
    ports: { [STEP_ANSWERS_PORT]: new StepAnswersPort(runs) },
    report: (report) => log.error(report, 'an actor failed'),
    dispose: async () => {
      await journal.close();
      await runs.close();
    },
  };
}
