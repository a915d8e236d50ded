/**
 * Entry of an actor thread: the composition root that gives the actors of this thread their ports. Started as a pool
 * task by src/runtime/actor-threads.ts. Actor threads.
 */
import { decodeExchange } from '../src/gateway/turns/decode.ts';
import { RATE_SLOTS } from '../src/limits.ts';
import { createLog } from '../src/log.ts';
import { runActorThread, type ThreadTask } from '../src/runtime/actor-thread.ts';
import type { JournalStore } from '../src/runtime/journal.ts';
import { chooseIndex } from '../src/search/open-index.ts';
import { CaptureLog, mayKeepMemory } from '../src/storage/capture/log.ts';
import { LmdbJournal } from '../src/storage/lmdb/journal.ts';
import type { DatabasePaths } from '../src/storage/lmdb/stores.ts';
import { LmdbTables } from '../src/storage/lmdb/tables.ts';
import { SplitJournal } from '../src/storage/split-journal.ts';
import { CAPTURE_LOG_PORT } from './capture-writer/behaviour.ts';
import { CaptureLogPort } from './capture-writer/port.ts';
import { CATALOG } from './catalog.ts';
import { findingsIndex } from './findings-index/behaviour.ts';
import { FINDINGS_PORT, FindingsPort } from './findings-index/port.ts';
import { liveHub, silentLiveHub } from './live-hub/behaviour.ts';
import { rateTablePort } from './rate-bucket/slots.ts';
import { RATE_TABLE_PORT } from './rate-bucket/slots-protocol.ts';
import { allocateRateTable, RateTable } from './rate-bucket/table.ts';
import { STEP_ANSWERS_PORT } from './run/behaviour.ts';
import { StepAnswersPort } from './run/port.ts';
import { FINDINGS_INDEX_POLICY, LIVE_HUB_POLICY, QUICK_KINDS } from './supervision.ts';

/** What the main thread passes to every actor thread. */
export interface HostOptions {
  log_level: string;
  capture: { db: string; redact: boolean; max_decoded_bytes: number };
  /** Where persistent kinds keep their journals; null for a process that runs none of them (the gateway alone). */
  databases: DatabasePaths | null;
  /** The rate buckets that all front threads share; absent in a process without an API. */
  rate_table?: SharedArrayBuffer;
  /** Somebody may read the live stream; otherwise its hubs keep nothing. */
  has_live_stream?: boolean;
}

/** Runs the thread; the pool calls it with its task. */
export default async function hostThread(task: ThreadTask<HostOptions>): Promise<void> {
  const { capture } = task.options;
  const logger = createLog(task.options.log_level);
  const captureLog = new CaptureLogPort(async () => {
    const log = await CaptureLog.open({
      path: capture.db,
      redact: capture.redact,
      max_decoded_bytes: capture.max_decoded_bytes,
      decode: decodeExchange,
    });
    return {
      append: (batch) => log.append(batch),
      flush: () => log.flush(),
      rotate: () => log.rotate(),
      tidy: async (budgetMs) => (await log.packSome(budgetMs)) || log.indexSome(decodeExchange, budgetMs),
      stats: () => log.stats(),
      close: () => log.close(),
      mayKeep: mayKeepMemory,
    };
  });
  const { databases, has_live_stream = false } = task.options;
  const journal = databases === null ? null : openJournal(databases);
  const tables = databases === null ? null : new LmdbTables(databases.main, 'disk');
  const runs = databases === null ? null : new LmdbTables(databases.runs, 'process');
  const findings = findingsIndex(chooseIndex((message) => logger.warn(message)));
  await runActorThread(task, {
    kinds:
      databases === null
        ? CATALOG.filter(({ behaviour }) => behaviour.persistence === undefined)
        : [
            ...CATALOG.filter(({ behaviour }) => has_live_stream || behaviour !== liveHub),
            ...(has_live_stream ? [] : [{ behaviour: silentLiveHub, policy: LIVE_HUB_POLICY }]),
            { behaviour: findings, policy: FINDINGS_INDEX_POLICY },
          ],
    journal,
    ports: {
      [CAPTURE_LOG_PORT]: captureLog,
      ...(tables === null ? {} : { [FINDINGS_PORT]: new FindingsPort(tables) }),
      ...(runs === null ? {} : { [STEP_ANSWERS_PORT]: new StepAnswersPort(runs) }),
      [RATE_TABLE_PORT]: rateTablePort(
        new RateTable(task.options.rate_table ?? allocateRateTable(RATE_SLOTS)),
      ),
    },
    report: (report) => logger.error(report, 'an actor failed'),
    dispose: async () => {
      await captureLog.close();
      await journal?.close();
      await tables?.close();
      await runs?.close();
    },
  });
}

function openJournal({ main, runs }: DatabasePaths): JournalStore {
  return new SplitJournal(new LmdbJournal(main, 'disk'), new LmdbJournal(runs, 'process'), QUICK_KINDS);
}
