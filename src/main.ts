/** Composition root: puts the process's parts together, starts them, stops them in reverse. Main thread. */

import { dirname } from 'node:path';
import { CaptureWriterClient } from '../actors/capture-writer/client.ts';
import {
  closeMappedMemory,
  type MappedMemory,
  MemoryPart,
  makeMappedMemory,
} from '../actors/capture-writer/mapped-memory.ts';
import { allocateRateTable } from '../actors/rate-bucket/table.ts';
import { MOVING_KINDS, PINS, SERVER_KINDS } from '../actors/supervision.ts';
import { type MetricsData, ProcessMetrics } from './api/metrics.ts';
import { UserEpochs } from './api/user-epochs.ts';
import { loadEmbeddedSecret } from './auth/embedded-secret.ts';
import { Revocations } from './auth/revocations.ts';
import { OWNER, signUserToken } from './auth/sign-token.ts';
import { StreamTickets } from './auth/stream-tickets.ts';
import { type Config, silenceModelRuntime } from './config.ts';
import { CaptureControl, type ThreadCapture } from './gateway/capture/capture-control.ts';
import { ConnectionWatch } from './http/connection-watch.ts';
import { holdPort } from './http/port.ts';
import {
  CAPTURE_STOP_MS,
  COMPUTE_DEADLINE_MS,
  COMPUTE_QUEUE_CALLS,
  FAILED_SIGN_INS,
  OWNER_TOKEN_HOURS,
  RATE_SLOTS,
} from './limits.ts';
import { createLog, type Log } from './log.ts';
import { TunnelCounts } from './proxy/tunnel-counts.ts';
import type { ActorClient } from './runtime/actor-client.ts';
import { ActorThreads } from './runtime/actor-threads.ts';
import { allocateClaims } from './runtime/claims.ts';
import { ComputePool } from './runtime/compute-pool.ts';
import type { Placement } from './runtime/protocol.ts';
import { findModelDir } from './search/open-embedder.ts';
import { createDeferred } from './std/deferred.ts';
import { newUlid } from './std/id.ts';
import { resolveModuleUrl } from './std/module-url.ts';
import { SharedLocks } from './std/shared-locks.ts';
import { quoteForShell } from './std/shell-word.ts';
import { readLastId } from './storage/capture/last-id.ts';
import { databasePaths } from './storage/lmdb/stores.ts';
import { WriteTurn } from './storage/lmdb/write-turn.ts';
import { findLoosePlaces } from './storage/loose-places.ts';
import type { HostOptions } from './threads/actor-thread-entry.ts';
import { CaptureReaderProcess } from './threads/capture-reader-process.ts';
import { openCapture } from './threads/capture-start.ts';
import { OtelExportProcess } from './threads/otel-export-process.ts';
import { ProcessClaims } from './threads/process-claims.ts';
import { startProxy } from './threads/proxy-start.ts';
import type { ProxyThread, RoutedServer } from './threads/proxy-thread.ts';
import { startServerActors } from './threads/server-actors.ts';
import { type Parts, ServerThread } from './threads/server-thread.ts';
import { ServerThreads } from './threads/server-threads.ts';
import { checkStudent, StudentThread } from './threads/student-thread.ts';

/** What runs after a start. */
export interface RunningUnderstudy {
  /** Without a trailing slash; null when the part was not asked for. */
  api_url: string | null;
  gateway_url: string | null;
  /** What clients set HTTPS_PROXY to; null without a proxy. */
  proxy_url: string | null;
  /** A token for the first user, where this service signs its own; null where tokens come from elsewhere. For terminals alone. */
  owner_token: string | null;
  /** Drains and closes everything. Called once. */
  stop(): Promise<void>;
}

/**
 * Starts the parts that are asked for.
 * @param givingUp ends the start, however far it is
 * @throws Error when a database cannot be opened or an address cannot be bound, and the reason of `givingUp`; nothing
 * runs then
 */
export async function startUnderstudy(
  config: Config,
  parts: Parts,
  givingUp?: AbortSignal,
): Promise<RunningUnderstudy> {
  silenceModelRuntime();
  const stops: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const end of stops.splice(0).reverse()) await end();
  };
  const starting = startAll(config, parts, stops, givingUp);
  try {
    return { ...(await unlessAborted(starting, givingUp)), stop };
  } catch (thrown) {
    // What a start that was given up begins nevertheless, ends with it.
    starting.then(stop, stop).catch(() => {});
    await stop();
    throw thrown;
  }
}

/** Settles as the work does, or rejects as soon as it is aborted. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  const aborted = createDeferred<never>();
  const abort = () => aborted.reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort);
  try {
    return await Promise.race([aborted.promise, work]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

async function startAll(
  given: Config,
  parts: Parts,
  stops: (() => Promise<void>)[],
  givingUp: AbortSignal | undefined,
): Promise<Omit<RunningUnderstudy, 'stop'>> {
  const log = createLog(given.log_level);
  const isCapturing = parts.gateway && given.capture.enabled;
  const claims = new ProcessClaims(given, log, givingUp);
  stops.push(() => claims.release());
  await claims.take({ api: parts.api, capture: isCapturing });
  const config = withTokenSecret(given, parts);
  const shared = allocateShared();
  const memory = isCapturing ? makeMappedMemory(config.capture.max_queue_bytes, config.server_threads) : null;
  if (memory !== null) stops.push(async () => closeMappedMemory(memory));
  const actors = await startActors({ config, parts, shared, memory, log, stops });

  const ownMemory = memory === null ? null : new MemoryPart(memory, 0, config.server_threads);
  const writer = isCapturing ? new CaptureWriterClient(actors.client, ownMemory) : null;
  let otel: OtelExportProcess | null = null;
  if (writer !== null) {
    await openCapture(writer, config.capture.db);
    otel = openOtelExport(config, log);
    // Behind the last flush of the writer: what was captured last goes out, too.
    if (otel !== null) stops.push(() => otel!.close());
    stops.push(() => writer.flush(CAPTURE_STOP_MS).catch(() => {}));
  }
  // Behind all that may refuse the start: that is told in one line.
  warnOfLoosePlaces(given, log);
  const { first, proxy } = await startServers({ config, parts, shared, memory, log, stops }, actors, {
    writer,
    otel,
  });
  stops.push(async () => claims.announceEnd());
  const isOwnSecret = config.auth.jwt_secret !== given.auth.jwt_secret;
  return {
    api_url: first.api_url,
    gateway_url: first.gateway_url,
    proxy_url: proxy?.url ?? null,
    owner_token: isOwnSecret ? await signOwnerToken(config) : null,
  };
}

/** What every part of the start is given; each adds to `stops` what ends it. */
interface Starting {
  config: Config;
  parts: Parts;
  shared: ReturnType<typeof allocateShared>;
  /** For what is captured; null where nothing is, or where the capture process cannot see it. */
  memory: MappedMemory | null;
  log: Log;
  stops: (() => Promise<void>)[];
}

/** Memory that all server threads see. */
function allocateShared() {
  return {
    rate_table: allocateRateTable(RATE_SLOTS),
    failed_sign_ins: allocateRateTable(FAILED_SIGN_INS.buckets),
    revocations: Revocations.allocate(),
    user_epochs: UserEpochs.allocate(),
    stream_tickets: StreamTickets.allocate(),
    event_locks: SharedLocks.allocate(),
    write_turn: WriteTurn.allocate(),
    // Of this start: there may be several services in a process.
    pattern_catalog: newUlid(),
  };
}

/** The actors of a process, as its main thread has them. */
interface StartedActors {
  threads: ActorThreads;
  placement: Placement;
  /** Reaches them from the main thread. */
  client: ActorClient;
  /** null where there is no API. */
  compute: ComputePool | null;
  isReady(): Promise<boolean>;
}

/** The compute pool, the actor threads, and the main thread's own host of actors. */
async function startActors({ config, parts, shared, memory, log, stops }: Starting): Promise<StartedActors> {
  const databases = parts.api ? databasePaths(config.data_dir, config.data_key) : null;
  const placement = placeActors(config, parts);
  const options: HostOptions = {
    log_level: config.log_level,
    capture: {
      db: config.capture.db,
      redact: config.capture.redact,
      max_decoded_bytes: config.capture.max_capture_bytes,
      retention_days: config.retention_days.captures,
      data_key: config.data_key,
      operator_secrets: config.gateway.route_secrets,
      run_headers: config.capture.run_headers,
      ...(memory === null ? {} : { memory: { descriptor: memory.descriptor, bytes: memory.bytes } }),
    },
    databases,
    rate_table: shared.rate_table,
    embedding: config.embedding,
    compute_threads: config.compute_threads,
    distill_model: config.distill_model,
    has_patterns: config.engines.vector_store !== null,
    pattern_catalog: shared.pattern_catalog,
  };
  const compute = parts.api ? openComputePool(config) : null;
  if (compute !== null) stops.push(() => compute.close());
  const threads = new ActorThreads({
    entry: resolveModuleUrl('./threads/actor-thread-entry.ts', import.meta.url),
    placement,
    options,
    ...(compute === null ? {} : { compute: compute.run }),
    onThreadDown: (index, reason, restartInMs) =>
      log.error({ thread: index, reason, restart_in_ms: restartInMs }, 'an actor thread ended'),
  });
  stops.push(() => threads.stop());
  // Server threads are numbered from the main one on, and so are their hosts.
  const ownHost = config.actor_threads;
  const client = await threads.openClient(ownHost);
  stops.push(async () => client.close());
  // Capture is not asked: the gateway forwards without it, and the API does not need it.
  if (databases === null) return { threads, placement, client, compute, isReady: async () => client.isUp(0) };
  const host = startServerActors({
    index: ownHost,
    placement,
    actors: client,
    databases,
    write_turn: shared.write_turn,
    has_live_stream: config.engines.live_stream !== null,
    live_event_days: config.retention_days.live_events,
    log,
    onUp: () => threads.addHost(ownHost, host),
  });
  threads.addHost(ownHost, host);
  stops.push(() => host.stop());
  return { threads, placement, client, compute, isReady: async () => client.isUp(0) && client.isUp(ownHost) };
}

/**
 * The student, the server threads, the main one first, and the proxy before them.
 * @returns the main thread's, and the proxy
 */
async function startServers(
  { config: given, parts, shared, memory, log, stops }: Starting,
  { threads, placement, client, compute, isReady }: StartedActors,
  { writer, otel }: { writer: CaptureWriterClient | null; otel: OtelExportProcess | null },
): Promise<{ first: ServerThread; proxy: ProxyThread | null }> {
  const routed: RoutedServer[] = [];
  const counts = new TunnelCounts();
  const hasProxy = parts.gateway && given.proxy !== null;
  let proxy: ProxyThread | null = null;
  // Behind the servers: what is left of their answers passes through it.
  stops.push(async () => proxy?.stop());
  const openProxy = async (): Promise<ProxyThread | null> => {
    if (!hasProxy) return null;
    const own_ports = [first.api_url, first.gateway_url].flatMap((url) => portOf(url));
    proxy = await startProxy(config, { servers: routed, own_ports, counts, log }, connections.descriptors);
    stops.push(async () => proxy?.drain());
    return proxy;
  };
  const student = parts.gateway ? await openStudent(given, log) : null;
  if (student !== null) {
    stops.push(() => student.close());
    await student.waitForStart();
  }
  const connections = new ConnectionWatch(given.connections, log);
  stops.push(async () => connections.stop());
  const captures: ThreadCapture[] = [];
  const meters: { metrics(): Promise<MetricsData> }[] = [];
  const admin = new CaptureControl({
    version: given.version,
    db_path: given.capture.db,
    max_queue: given.capture.max_queue,
    writer,
    servers: captures,
    relegation: student,
    connections: () => connections.counts(),
    otel: otel === null ? null : () => otel.state(),
    ...(hasProxy ? { proxy: () => counts.read() } : {}),
  });
  const processMetrics = new ProcessMetrics(
    {
      servers: () => meters.map((server) => server.metrics()),
      actors: () => threads.stats(),
      connections: () => connections.counts(),
      capture: () => (writer === null && student === null ? null : admin.stats()),
    },
    given.version,
  );
  const renderMetrics = () => processMetrics.render();
  const reader = openCaptureReader(given, log);
  stops.push(() => reader.close());
  const isAlone = given.server_threads === 1;
  const { config, release } = isAlone
    ? { config: given, release: () => {} }
    : await withHeldPorts(given, parts);
  stops.push(async () => release());
  const others = isAlone
    ? null
    : new ServerThreads({
        config,
        parts,
        placement,
        shared,
        memory,
        actors: threads,
        admin,
        captures: reader,
        isReady,
        compute: compute?.run ?? null,
        renderMetrics,
        onServerEnded: (thrown) => log.error({ err: thrown }, 'a server thread ended'),
      });
  if (others !== null) {
    stops.push(() => others.stop());
    await others.open();
  }
  const first = await ServerThread.start({
    config,
    parts,
    writer,
    admin,
    captures: reader,
    probes: { actors: isReady },
    asker: client,
    shared,
    log,
    renderMetrics,
    compute: compute?.run ?? null,
  });
  release();
  captures.push(first);
  meters.push(first);
  stops.push(() => first.stop());
  student?.connect({
    attach: (port, facts) => first.attachStudent(port, facts),
    withdraw: () => first.withdrawStudent(),
  });
  first.tend();
  routed.push(first);
  if (others === null) {
    return { first, proxy: await openProxy() };
  }

  // Every server thread lets its requests finish before the first host of actors goes: they are of all runs.
  stops.push(() => others.drain());
  await others.start();
  captures.push(...others.captures);
  meters.push(...others.servers);
  if (student !== null) others.connectStudent(student);
  routed.push(...others.servers);
  return { first, proxy: await openProxy() };
}

/** @returns none for a part that was not asked for */
function portOf(url: string | null): number[] {
  return url === null ? [] : [Number(new URL(url).port)];
}

/** Others read nothing that is made from now on; what is there already is for the operator to close. */
function warnOfLoosePlaces({ data_dir, capture }: Config, log: Log): void {
  const loose = findLoosePlaces(data_dir, capture.db);
  if (loose === null) return;
  const { count, is_cut, first } = loose;
  const isElsewhere = dirname(capture.db) !== data_dir;
  const besides = isElsewhere ? ` ${quoteForShell(capture.db.replace(/\.[^./]*$/, ''))}.*` : '';
  log.warn(
    { places: count, more: is_cut, first },
    `other users of this machine may use what is kept here; to close it: chmod -R go= ${quoteForShell(data_dir)}${besides}`,
  );
}

/**
 * The student's thread, which reads its student in meanwhile, or waits for one; null where relegation is off.
 * @throws StudentDirectoryError when no student can be loaded, since the operator has asked for one
 */
async function openStudent({ relegation, log_level }: Config, log: Log): Promise<StudentThread | null> {
  if (relegation === null) return null;
  const { directory, mode, key, audit_share, sticky, watch_path, ledger_path, timeout_ms, prices } =
    relegation;
  await checkStudent(directory);
  const entry = resolveModuleUrl('./threads/student-thread-entry.ts', import.meta.url);
  return new StudentThread({
    entry,
    directory,
    mode,
    key,
    audit_share,
    sticky,
    watch_path,
    ledger_path,
    timeout_ms,
    prices,
    log_level,
    log,
  });
}

/** null where no collector is named. What was captured before the export was on stays where it is. */
function openOtelExport(
  { otel, capture, gateway, data_key, version }: Config,
  log: Log,
): OtelExportProcess | null {
  if (otel === null) return null;
  const { attributes, has_content, ...collector } = otel;
  return new OtelExportProcess({
    entry: resolveModuleUrl('./threads/otel-export-entry.ts', import.meta.url),
    options: {
      db: capture.db,
      data_key,
      collector,
      has_content,
      source: {
        resource: { 'service.version': version, ...attributes },
        scope: { name: 'understudy.gateway', version },
      },
      servers: [
        ...gateway.routes.map(({ prefix, base, provider }) => ({ prefix, base, provider })),
        { prefix: '/gemini', base: gateway.gemini_base, provider: 'gemini' },
        { prefix: '/bedrock', base: gateway.bedrock_base, provider: 'bedrock' },
        { prefix: '/', base: gateway.upstream_base, provider: gateway.provider },
      ],
      position_path: `${capture.db}.otel-position`,
      after_id: readLastId(capture.db),
    },
    tell: (words, facts) => log.warn(facts, words),
  });
}

/** Starts nothing before somebody asks. */
function openCaptureReader(
  { capture, data_key, relegation, version }: Config,
  log: Log,
): CaptureReaderProcess {
  return new CaptureReaderProcess({
    entry: resolveModuleUrl('./threads/capture-reader-entry.ts', import.meta.url),
    options: {
      db: capture.db,
      data_key,
      prices: capture.prices ?? {},
      student: relegation?.directory ?? null,
      version,
    },
    tell: (ended) => log.error(ended, 'the process that reads captures for the API ended'),
  });
}

/** The kinds of `SERVER_KINDS` live on the servers where there is an API. */
function placeActors({ actor_threads, server_threads }: Config, parts: Parts): Placement {
  const placement = { hosts: actor_threads, pins: PINS };
  if (!parts.api) return placement;
  const servers = { hosts: server_threads, kinds: SERVER_KINDS };
  return server_threads === 1
    ? { ...placement, servers }
    : { ...placement, servers, moving: allocateClaims(MOVING_KINDS) };
}

/** The configuration with the embedded secret, where accounts are embedded and nobody else signs tokens. */
function withTokenSecret(config: Config, parts: Parts): Config {
  const { auth, engines } = config;
  const isOwn = engines.accounts === 'embedded:' && auth.jwt_secret === null && auth.jwks_url === null;
  if (!parts.api || !isOwn) return config;
  return { ...config, auth: { ...auth, jwt_secret: loadEmbeddedSecret(config.data_dir) } };
}

function openComputePool(config: Config): ComputePool {
  return new ComputePool({
    entry: resolveModuleUrl('./threads/compute-thread-entry.ts', import.meta.url),
    threads: config.compute_threads,
    options: { model_dir: findModelDir(config.embedding) },
    queue_calls_max: COMPUTE_QUEUE_CALLS,
    call_deadline_ms: COMPUTE_DEADLINE_MS,
  });
}

/** For the user who started the process: the same user at every start. */
function signOwnerToken({ auth }: Config): Promise<string> {
  const lifetimeS = OWNER_TOKEN_HOURS * 3_600;
  return signUserToken(auth, auth.jwt_secret!, {
    ...OWNER,
    lifetimeS,
    nowMs: Date.now(),
  });
}

/** The configuration with ports that several threads may share: free ones, picked where 0 was asked for, and held until `release`. */
async function withHeldPorts(config: Config, parts: Parts): Promise<{ config: Config; release(): void }> {
  const { api, gateway } = config;
  const held = {
    api: parts.api ? await holdPort(api.host, api.port) : null,
    gateway: parts.gateway ? await holdPort(gateway.host, gateway.port) : null,
  };
  return {
    config: {
      ...config,
      api: held.api === null ? api : { ...api, port: held.api.port },
      gateway: held.gateway === null ? gateway : { ...gateway, port: held.gateway.port },
    },
    release: () => {
      held.api?.release();
      held.gateway?.release();
    },
  };
}
