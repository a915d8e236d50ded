/**
 * Starts the actors: the compute pool, the actor threads, and the main thread's own host of actors.
 * Part of the composition root; main thread.
 */
import type { MappedMemory } from '../../actors/capture-writer/mapped-memory.ts';
import { allocateRateTable, RATE_SLOTS } from '../../actors/rate-bucket/table.ts';
import { MOVING_KINDS, PINS, SERVER_KINDS } from '../../actors/supervision.ts';
import { FAILED_SIGN_INS } from '../api/failed-sign-ins.ts';
import type { Probed } from '../api/health.ts';
import { UserEpochs } from '../api/user-epochs.ts';
import { Revocations } from '../auth/revocations.ts';
import { StreamTickets } from '../auth/stream-tickets.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { ActorClient } from '../runtime/actor-client.ts';
import { ActorThreads } from '../runtime/actor-threads.ts';
import { allocateClaims } from '../runtime/claims.ts';
import { ComputePool } from '../runtime/compute-pool.ts';
import { COMPUTE_DEADLINE_MS, COMPUTE_QUEUE_CALLS } from '../runtime/direct-channel.ts';
import type { Placement } from '../runtime/protocol.ts';
import { findModelDir } from '../search/open-embedder.ts';
import { newUlid } from '../std/id.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { SharedLocks } from '../std/shared-locks.ts';
import { servicePaths } from '../storage/lmdb/stores.ts';
import { WriteTurn } from '../storage/lmdb/write-turn.ts';
import type { StoreSeat } from '../storage/shared/seat.ts';
import type { StoreReads } from '../storage/store-reads.ts';
import type { HostOptions } from './actor-thread-entry.ts';
import { startServerActors } from './server-actors.ts';
import type { Parts } from './server-thread.ts';
import type { ServiceParts } from './service-parts.ts';
import type { StopNotice } from './stop-notice.ts';

/** The inputs of every step of a start. */
export interface Starting {
  config: Config;
  /** The requested listeners. */
  parts: Parts;
  shared: ReturnType<typeof allocateShared>;
  /** Memory for captured exchanges; null without capture, or if the capture process cannot map it. */
  memory: MappedMemory | null;
  /**
   * Watches for read transactions of the API's databases that are too long; null without an API.
   */
  reads: StoreReads | null;
  notice: StopNotice;
  log: Log;
  /** The parts that have been started so far. */
  running: ServiceParts;
}

/** The actors of a process, for its main thread. */
export interface StartedActors {
  threads: ActorThreads;
  placement: Placement;
  /** The main thread's client for calls to the actors. */
  client: ActorClient;
  /** null: there is no API. */
  compute: ComputePool | null;
  /**
   * Checks readiness: whether the actors can be reached, or why the service should get no more
   * requests.
   */
  isReady(): Promise<Probed>;
}

/** Allocates the memory that all server threads share. */
export function allocateShared() {
  return {
    // The store thread of a box that shares its main database; main.ts starts it.
    seat: null as StoreSeat | null,
    rate_table: allocateRateTable(RATE_SLOTS),
    // Allocated by main.ts if several boxes share the rate limits.
    rate_shares: null as SharedArrayBuffer | null,
    failed_sign_ins: allocateRateTable(FAILED_SIGN_INS.buckets),
    revocations: Revocations.allocate(),
    user_epochs: UserEpochs.allocate(),
    stream_tickets: StreamTickets.allocate(),
    event_locks: SharedLocks.allocate(),
    write_turn: WriteTurn.allocate(),
    // The name is unique to this start, because a process may run several services.
    pattern_catalog: newUlid(),
  };
}

/** Starts the actor threads and, if there is an API, the compute pool and the main thread's own host of actors. */
export async function startActors(starting: Starting): Promise<StartedActors> {
  const { config, parts, log, running } = starting;
  const placement = placeActors(config, parts);
  const compute = !parts.api
    ? null
    : await running.start({ start: () => openComputePool(config), stop: (pool) => pool.close() });
  const threads = await running.start({
    start: () =>
      new ActorThreads({
        entry: resolveModuleUrl('./actor-thread-entry.ts', import.meta.url),
        placement,
        options: hostOptions(starting),
        ...(compute === null ? {} : { compute: compute.run }),
        onThreadDown: (index, reason, restartInMs) =>
          log.error({ thread: index, reason, restart_in_ms: restartInMs }, 'an actor thread ended'),
      }),
    stop: (started) => started.stop(),
  });
  // The main thread's host has the first number after those of the actor threads.
  const ownHost = config.actor_threads;
  const client = await running.start({
    start: () => threads.openClient(ownHost),
    stop: (opened) => opened.close(),
  });
  // Readiness does not depend on capture: the gateway forwards without it, and the API does not use it.
  if (!parts.api) return { threads, placement, client, compute, isReady: async () => client.isUp(0) };
  await running.start({
    start: () => startOwnHost(starting, threads, client, placement),
    stop: (host) => host.stop(),
  });
  return { threads, placement, client, compute, isReady: async () => client.isUp(0) && client.isUp(ownHost) };
}

/** Starts the main thread's host of actors, and links it with the actor threads. */
function startOwnHost(
  { config, shared, log }: Starting,
  threads: ActorThreads,
  client: ActorClient,
  placement: Placement,
) {
  const index = config.actor_threads;
  const host = startServerActors({
    index,
    placement,
    actors: client,
    databases: servicePaths(config, shared.seat),
    write_turn: shared.write_turn,
    has_live_stream: config.engines.live_stream !== null,
    live_event_days: config.retention_days.live_events,
    log,
    onUp: () => threads.addHost(index, host),
  });
  threads.addHost(index, host);
  return host;
}

function hostOptions({ config, parts, shared, memory }: Starting): HostOptions {
  return {
    log_level: config.log_level,
    capture: {
      db: config.capture.db,
      redact: config.capture.redact,
      max_decoded_bytes: config.capture.max_capture_bytes,
      retention_days: config.retention_days.captures,
      data_key: config.data_key,
      operator_secrets: config.gateway.route_secrets,
      run_headers: config.capture.run_headers,
      data_dir: config.data_dir,
      bucket: config.capture.bucket,
      ...(memory === null ? {} : { memory: { descriptor: memory.descriptor, bytes: memory.bytes } }),
    },
    databases: parts.api ? servicePaths(config, shared.seat) : null,
    rate_table: shared.rate_table,
    rate_shares: shared.rate_shares,
    embedding: config.embedding,
    compute_threads: config.compute_threads,
    distill_model: config.distill_model,
    has_patterns: config.engines.vector_store !== null,
    pattern_catalog: shared.pattern_catalog,
  };
}

/**
 * Decides where actors run: all kinds on the actor threads and, if there is an API, the kinds of
 * `SERVER_KINDS` on the server threads.
 */
function placeActors({ actor_threads, server_threads }: Config, parts: Parts): Placement {
  const placement = { hosts: actor_threads, pins: PINS };
  if (!parts.api) return placement;
  const servers = { hosts: server_threads, kinds: SERVER_KINDS };
  return server_threads === 1
    ? { ...placement, servers }
    : { ...placement, servers, moving: allocateClaims(MOVING_KINDS) };
}

function openComputePool(config: Config): ComputePool {
  return new ComputePool({
    entry: resolveModuleUrl('./compute-thread-entry.ts', import.meta.url),
    threads: config.compute_threads,
    options: { model_dir: findModelDir(config.embedding) },
    queue_calls_max: COMPUTE_QUEUE_CALLS,
    call_deadline_ms: COMPUTE_DEADLINE_MS,
  });
}
