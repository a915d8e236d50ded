/**
 * Entry of an actor thread: the composition root that gives the actors of this thread their ports. Started as a pool
 * task by src/runtime/actor-threads.ts. Actor threads.
 */
import { decodeExchange } from '../src/gateway/turns/decode.ts';
import { createLog } from '../src/log.ts';
import { runActorThread, type ThreadTask } from '../src/runtime/actor-thread.ts';
import { CaptureLog, mayKeepMemory } from '../src/storage/capture/log.ts';
import { LmdbJournal } from '../src/storage/lmdb/journal.ts';
import { CAPTURE_LOG_PORT } from './capture-writer/behaviour.ts';
import { CaptureLogPort } from './capture-writer/port.ts';
import { CATALOG } from './catalog.ts';

/** What the main thread passes to every actor thread. */
export interface HostOptions {
  log_level: string;
  capture: { db: string; redact: boolean; max_decoded_bytes: number };
  /** The main database, where persistent kinds keep their journals; needed as soon as the catalogue has one. */
  main_db?: string;
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
  const journal = openJournal(task.options.main_db);
  await runActorThread(task, {
    kinds: CATALOG,
    journal,
    ports: { [CAPTURE_LOG_PORT]: captureLog },
    report: (report) => logger.error(report, 'an actor failed'),
    dispose: async () => {
      await captureLog.close();
      await journal?.close();
    },
  });
}

/** No kind that persists, no file. */
function openJournal(path: string | undefined): LmdbJournal | null {
  if (path === undefined || CATALOG.every(({ behaviour }) => behaviour.persistence === undefined))
    return null;
  return new LmdbJournal(path);
}
