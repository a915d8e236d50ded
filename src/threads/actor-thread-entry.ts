/**
 * Entry of an actor thread: the composition root that gives the actors of this thread their adapters. Started by
 * src/runtime/actor-threads.ts.
 */

import { dirname, join } from 'node:path';
import { CAPTURE_LOG_ADAPTER } from '../../actors/capture-writer/behaviour.ts';
import type { MappedMemoryPlace } from '../../actors/capture-writer/mapped-memory.ts';
import { CaptureProcess, type CaptureProcessTold } from '../../actors/capture-writer/process.ts';
import { CATALOG } from '../../actors/catalog.ts';
import { FINDINGS_ADAPTER, FindingsAdapter } from '../../actors/findings-index/adapter.ts';
import { findingsIndex } from '../../actors/findings-index/behaviour.ts';
import { PatternStoreAdapter } from '../../actors/pattern-index/adapter.ts';
import { PATTERN_STORE_ADAPTER } from '../../actors/pattern-index/behaviour.ts';
import { PatternIndexClient } from '../../actors/pattern-index/client.ts';
import { PatternStore } from '../../actors/pattern-index/store.ts';
import { PatternMakingAdapter } from '../../actors/pattern-maker/adapter.ts';
import { PATTERN_MAKING_ADAPTER } from '../../actors/pattern-maker/behaviour.ts';
import { ModelWriter } from '../../actors/pattern-maker/model-writer.ts';
import { TRACE_BODIES } from '../../actors/pattern-maker/protocol.ts';
import { RateShares } from '../../actors/rate-bucket/shares.ts';
import { rateTableAdapter } from '../../actors/rate-bucket/slots.ts';
import { RATE_TABLE_ADAPTER } from '../../actors/rate-bucket/slots-protocol.ts';
import { allocateRateTable, RATE_SLOTS, RateTable } from '../../actors/rate-bucket/table.ts';
import { FINDINGS_INDEX_POLICY, QUICK_KINDS } from '../../actors/supervision.ts';
import type { LocalKeep } from '../domain/local-keep.ts';
import { STARTER_PATTERNS } from '../domain/starter-patterns.ts';
import { CatalogueError } from '../errors.ts';
import { createLog, type Log } from '../log.ts';
import { runActorThread, type ThreadServices, type ThreadTask } from '../runtime/actor-thread.ts';
import { COMPUTE_DEADLINE_MS, COMPUTE_QUEUE_CALLS, DirectChannel } from '../runtime/direct-channel.ts';
import type { JournalStore } from '../runtime/journal.ts';
import type { Embedder } from '../search/embedder.ts';
import { listFormerEmbedders, sourceOf } from '../search/former-embedders.ts';
import { GraphFolder } from '../search/graph-folder.ts';
import { openCatalog } from '../search/index-catalog.ts';
import { type EmbeddingChoice, openEmbedder } from '../search/open-embedder.ts';
import { chooseIndex } from '../search/open-index.ts';
import { ThreadEmbedder } from '../search/thread-embedder.ts';
import { systemClock } from '../std/clock.ts';
import { newUlid } from '../std/id.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { runOwnThread } from '../std/own-thread.ts';
import { TableFindingIndex } from '../storage/accounts/finding-index.ts';
import { LmdbJournal } from '../storage/lmdb/journal.ts';
import { openMainJournal, openMainTables } from '../storage/lmdb/main-store.ts';
import type { DatabasePaths } from '../storage/lmdb/stores.ts';
import { SplitJournal } from '../storage/split-journal.ts';
import type { Tables } from '../storage/tables.ts';
import { logDamagedValues } from './damage-log.ts';
import { SharedChanges } from './shared-changes.ts';

/**
 * A pattern graph is saved when it has not changed for this time, or when a large part of it is
 * new.
 */
const GRAPH_QUIET_MS = 10_000;

/** What the main thread passes to every actor thread. */
export interface HostOptions {
  log_level: string;
  capture: {
    db: string;
    redact: boolean;
    max_decoded_bytes: number;
    /**
     * Age in days at which captured exchanges are removed; null or absent: they are never removed.
     */
    retention_days?: number | null;
    /** The bucket to which sealed files are sent; null or absent: none. */
    bucket?: { place: string; keep: LocalKeep; seal_after_ms: number | null } | null;
    /** Encrypts captured exchanges; null or absent: they are not encrypted. Secret. */
    data_key?: Uint8Array | null;
    /** Credentials that the gateway adds to requests; absent: none. Secret. */
    operator_secrets?: readonly string[];
    /** Headers that name runs, in lower case; absent: none. */
    run_headers?: readonly string[];
    /** DATA_DIR; absent: the folder of `db`. */
    data_dir?: string;
    /** The memory that the capture process also maps; absent: no such memory. */
    memory?: MappedMemoryPlace & { descriptor: number };
  };
  /** The databases with the journals of persistent kinds; null: the process has no such kinds (the gateway alone). */
  databases: DatabasePaths | null;
  /**
   * Memory of the table of rate limits, which the server threads share; absent: a table that no other thread shares.
   */
  rate_table?: SharedArrayBuffer;
  /** Memory of `RateShares`; null or absent: this box shares no rate limits with other boxes. */
  rate_shares?: SharedArrayBuffer | null;
  /** The embedder for texts of this thread, if there is an API. */
  embedding?: EmbeddingChoice;
  /** Threads of the pool that embeds; default 1. */
  compute_threads?: number;
  /** The model that writes the texts of patterns; null: none. */
  distill_model?: { url: string; model: string; key: string } | null;
  /** Whether patterns are kept and searched. */
  has_patterns?: boolean;
  /** Name under which server threads find the pattern indexes; absent: they do not search. */
  pattern_catalog?: string;
}

/** Runs the thread until it is stopped. */
async function hostThread(task: ThreadTask<HostOptions>): Promise<void> {
  const { capture } = task.options;
  const logger = createLog(task.options.log_level);
  logDamagedValues(logger);
  const captureLog = new CaptureProcess({
    entry: resolveModuleUrl('./capture-process-entry.ts', import.meta.url),
    options: {
      log_level: task.options.log_level,
      db: capture.db,
      redact: capture.redact,
      max_decoded_bytes: capture.max_decoded_bytes,
      retention_days: capture.retention_days ?? null,
      data_key: capture.data_key ?? null,
      operator_secrets: capture.operator_secrets ?? [],
      run_headers: capture.run_headers ?? [],
      ...(capture.data_dir === undefined ? {} : { data_dir: capture.data_dir }),
      bucket: capture.bucket ?? null,
      memory: capture.memory ?? null,
    },
    descriptor: capture.memory?.descriptor ?? null,
    tell: tellCaptureProcess(capture.db, logger),
  });
  const { databases } = task.options;
  const journal = databases === null ? null : openJournal(databases);
  const changes = new SharedChanges();
  const tables = databases === null ? null : openMainTables(databases, (rows) => changes.take(rows));
  /** The adapters' resources, in the order in which they are closed. */
  const opened: { close(): Promise<void> }[] = [];
  const findings = findingsIndex(chooseIndex((message) => logger.warn(message)));
  await runActorThread(task, {
    kinds:
      databases === null
        ? CATALOG.filter(({ behaviour }) => behaviour.persistence === undefined)
        : [...CATALOG, { behaviour: findings, policy: FINDINGS_INDEX_POLICY }],
    journal,
    adapters: (services) => ({
      [CAPTURE_LOG_ADAPTER]: captureLog,
      ...(tables === null ? {} : storeAdapters(task.options, tables, services, logger, opened, changes)),
      [RATE_TABLE_ADAPTER]: rateTableAdapter(
        new RateTable(task.options.rate_table ?? allocateRateTable(RATE_SLOTS)),
        task.options.rate_shares == null ? null : new RateShares(task.options.rate_shares),
      ),
    }),
    report: (report) => logger.error(report, 'an actor failed'),
    dispose: async () => {
      await captureLog.close();
      for (const resource of opened) await resource.close();
      await journal?.close();
      await tables?.close();
    },
  });
}

/** Makes the function that logs each unexpected end of the capture process, and each return after it. */
function tellCaptureProcess(db: string, logger: Log): (told: CaptureProcessTold) => void {
  return ({ event, ...told }) => {
    if (event === 'back') logger.info({ db, pid: told.pid }, 'the capture process is back');
    else
      logger.error(
        { db, ...told },
        'the capture process ended: captured exchanges wait in memory until it restarts, and traffic continues. Earlier lines ' +
          'say what failed',
      );
  };
}

function openJournal(paths: DatabasePaths): JournalStore {
  if (paths.seat !== undefined) return openMainJournal(paths);
  return new SplitJournal(
    openMainJournal(paths),
    new LmdbJournal(paths.runs, 'process', null, paths.data_key),
    QUICK_KINDS,
  );
}

/**
 * Opens this thread's embedder: a client of the model in the stateless pool, or of the remote service.
 * @throws Error (rejects) if the process has no embedder
 */
async function openThreadEmbedder(
  choice: EmbeddingChoice | undefined,
  compute: ThreadServices['compute'],
  computeThreads: number,
): Promise<Embedder> {
  if (choice === undefined || compute === null) throw new Error('this process embeds nothing');
  return openEmbedder(choice, compute, computeThreads);
}

/** Makes the adapters that read and write rows for the actors. */
function storeAdapters(
  options: HostOptions,
  tables: Tables,
  services: ThreadServices,
  logger: Log,
  opened: { close(): Promise<void> }[],
  changes: SharedChanges,
) {
  const findings = new FindingsAdapter(new TableFindingIndex(tables));
  const adapters = patternAdapters(options, tables, services, logger, opened);
  changes.follow({ asker: services.asker, findings, patterns: adapters[PATTERN_STORE_ADAPTER] });
  return { [FINDINGS_ADAPTER]: findings, ...adapters };
}

/**
 * Makes the adapters of the pattern index and the pattern maker. The pattern store is opened at its first
 * use.
 */
function patternAdapters(
  {
    has_patterns = false,
    distill_model = null,
    embedding: choice,
    compute_threads = 1,
    pattern_catalog,
    databases,
  }: HostOptions,
  tables: Tables,
  { asker, compute }: ThreadServices,
  logger: Log,
  opened: { close(): Promise<void> }[],
) {
  // Requests wait for these calls, so they go directly to the model's thread and not through the
  // main thread.
  const channel =
    compute === null
      ? null
      : new DirectChannel(compute, {
          call_deadline_ms: COMPUTE_DEADLINE_MS,
          calls_max: COMPUTE_QUEUE_CALLS,
        });
  const embedding = new ThreadEmbedder(() =>
    openThreadEmbedder(choice, channel?.run ?? null, compute_threads),
  );
  // The folder is beside the databases. If it is removed, the graphs are rebuilt.
  const graphsDir = join(dirname(databases!.main), 'pattern-graphs');
  const store = new PatternStoreAdapter(async () => {
    const embedder = await embedding.open();
    // The first answer of a remote service reveals the length of its vectors.
    if (embedder.dimensions === 0) throw new CatalogueError('unavailable');
    return new PatternStore({
      tables,
      embedder,
      makeIndex: chooseIndex((message) => logger.warn(message)),
      catalog: pattern_catalog === undefined ? null : openCatalog(pattern_catalog),
      clock: systemClock,
      newId: newUlid,
      log: logger,
      starters: STARTER_PATTERNS,
      // With a data key, no graphs are saved: a graph reveals much about its texts, and is written unencrypted.
      graphs:
        databases!.data_key === null
          ? { folder: new GraphFolder(graphsDir, newUlid), quiet_ms: GRAPH_QUIET_MS }
          : null,
      ...(choice === undefined || channel === null
        ? {}
        : {
            embedder_source: sourceOf(choice),
            listFormer: (record) => listFormerEmbedders(choice, record, channel.run),
          }),
    });
  });
  const patternMaking = new PatternMakingAdapter({
    readBody: (key) => tables.get<Uint8Array>(TRACE_BODIES, [key]),
    embedder: embedding,
    sink: has_patterns ? new PatternIndexClient(asker) : null,
    writer: distill_model === null ? null : new ModelWriter(distill_model, (reason) => logger.warn(reason)),
  });
  opened.push(store, embedding, { close: async () => channel?.close() });
  return { [PATTERN_STORE_ADAPTER]: store, [PATTERN_MAKING_ADAPTER]: patternMaking };
}

runOwnThread(hostThread);
