/**
 * Starts the servers: the student, the server threads (the main thread's first), and the proxy.
 * Part of the composition root; main thread.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { CaptureWriterClient } from '../../actors/capture-writer/client.ts';
import { type MetricsData, ProcessMetrics } from '../api/metrics.ts';
import type { Config } from '../config.ts';
import type { FigureQuestion, FigureReport, TrafficFigures } from '../domain/traffic-figures.ts';
import { allocateArrivals } from '../gateway/capture/arrival-counter.ts';
import { CaptureControl, type ThreadCapture } from '../gateway/capture/capture-control.ts';
import { QueuePlaces } from '../gateway/capture/queue-places.ts';
import { ConnectionWatch, type FramingGuard, findFramingGuard } from '../http/connection-watch.ts';
import { holdPort } from '../http/port.ts';
import { TunnelCounts } from '../proxy/tunnel-counts.ts';
import { systemClock } from '../std/clock.ts';
import { readPointNotes } from '../storage/points/point-note.ts';
import type { StartedActors, Starting } from './actor-start.ts';
import { type CaptureReaderProcess, openCaptureReader } from './capture-reader-process.ts';
import type { OtelExportProcess } from './otel-export-process.ts';
import type { RoutedServer } from './proxy-routes.ts';
import { startProxy } from './proxy-start.ts';
import type { ProxyThread } from './proxy-thread.ts';
import { type Parts, ServerThread, type ServerThreadServices } from './server-thread.ts';
import { ServerThreads } from './server-threads.ts';
import { STOPPING } from './stop-notice.ts';
import { openStudentSharing } from './student-sharing.ts';
import { openStudent, type StudentThread } from './student-thread.ts';

/** The capture writer of a process's servers, and the exporter of captured turns. */
export interface Capture {
  /** null: nothing is captured. */
  writer: CaptureWriterClient | null;
  /** null: nothing is exported. */
  otel: OtelExportProcess | null;
}

/** A server of this thread, or a remote object for a server of another thread. */
type AnyServer = RoutedServer & { metrics(): Promise<MetricsData> };

/** The servers that have started, for calls to all of them. */
class Roster {
  readonly captures: ThreadCapture[] = [];
  readonly servers: AnyServer[] = [];

  add(server: AnyServer, capture: ThreadCapture): void {
    this.servers.push(server);
    this.captures.push(capture);
  }
}

/**
 * The proxy. It starts after the servers. It also stops after the servers, because the last bytes of their
 * answers pass through it.
 */
class LateProxy {
  readonly counts = new TunnelCounts();
  #thread: ProxyThread | null = null;

  async open(...start: Parameters<typeof startProxy>): Promise<ProxyThread> {
    this.#thread = await startProxy(...start);
    return this.#thread;
  }

  stop(): Promise<void> | undefined {
    return this.#thread?.stop();
  }
}

/**
 * Starts all servers of the process.
 * @returns the main thread's server, and the proxy; null: there is no proxy
 */
export async function startServers(
  starting: Starting,
  started: StartedActors,
  capture: Capture,
): Promise<{ first: ServerThread; proxy: ProxyThread | null }> {
  const { config: given, parts, notice, log, running } = starting;
  const isReady = async () => (notice.isGiven ? STOPPING : started.isReady());
  const actors: StartedActors = { ...started, isReady };
  const roster = new Roster();
  const proxy = await running.start({ start: () => new LateProxy(), stop: (late) => late.stop() });
  const student = await running.start({
    start: () => (parts.gateway ? openStudent(given, log) : null),
    stop: (opened) => opened?.close(),
  });
  await running.start({
    start: () => (parts.gateway ? openStudentSharing(given, log) : null),
    stop: (opened) => opened?.close(),
  });
  await student?.waitForStart();
  const connections = await running.start({
    start: () => new ConnectionWatch(given.connections, log),
    stop: (watch) => watch.stop(),
  });
  const reader = await running.start({
    start: () => openCaptureReader(given, log),
    stop: (opened) => opened.close(),
  });
  const held = await running.start({
    start: () => holdPorts(given, parts),
    stop: ({ release }) => release(),
  });
  const { config } = held;
  const services = serverServices(starting, actors, {
    ...capture,
    config,
    roster,
    proxy,
    student,
    connections,
    reader,
  });
  const others = config.server_threads === 1 ? null : await startOthers(starting, actors, services);
  const first = await running.start({
    start: () => ServerThread.start(services),
    stop: (server) => server.stop(),
  });
  held.release();
  student?.connect({
    attach: (port, facts) => first.attachStudent(port, facts),
    withdraw: (isExpected) => first.withdrawStudent(isExpected),
  });
  first.tend();
  roster.add(first, first);
  if (others !== null) {
    // Every server thread finishes its requests before the main thread's host of actors stops,
    // because that host holds runs of clients of all threads.
    await running.start({ start: () => others.start(), stop: () => others.drain() });
    for (const [at, server] of others.servers.entries()) roster.add(server, others.captures[at]!);
    if (student !== null) others.connectStudent(student);
  }
  if (!parts.gateway || config.proxy === null) return { first, proxy: null };
  const own_ports = [first.api_url, first.gateway_url].flatMap((url) => portOf(url));
  const opened = await running.start({
    start: () =>
      proxy.open(
        config,
        { servers: roster.servers, own_ports, counts: proxy.counts, log },
        connections.descriptors,
      ),
    stop: (thread) => thread.drain(),
  });
  return { first, proxy: opened };
}

/** The objects that all server threads of this process share. */
interface Shared extends Capture {
  /** The configuration, with the ports on which all server threads listen. */
  config: Config;
  roster: Roster;
  proxy: LateProxy;
  student: StudentThread | null;
  connections: ConnectionWatch;
  reader: CaptureReaderProcess;
}

function serverServices(
  { parts, shared, reads, notice, log }: Starting,
  { threads, client, compute, isReady }: StartedActors,
  { config, roster, proxy, student, connections, reader, writer, otel }: Shared,
): ServerThreadServices {
  const guard = () => guardOf(config);
  const admin = new CaptureControl({
    version: config.version,
    db_path: config.capture.db,
    max_queue: config.capture.max_queue,
    writer,
    servers: roster.captures,
    relegation: student,
    connections: () => connections.counts(),
    framing_guard: guard,
    refusal: () => (notice.isGiven ? STOPPING : null),
    otel: otel === null ? null : () => otel.state(),
    ...(reads === null ? {} : { databases: () => reads.ages() }),
    ...(parts.gateway && config.proxy !== null ? { proxy: () => proxy.counts.read() } : {}),
  });
  const metrics = new ProcessMetrics(
    {
      servers: () => roster.servers.map((server) => server.metrics()),
      actors: () => threads.stats(),
      connections: () => connections.counts(),
      framing_guard: guard,
      capture: () => (writer === null && student === null ? null : admin.stats()),
      verdicts: () => ({ differing_runs: reader.differing_runs }),
      points: () => readPointNotes(config.data_dir),
      databases: () => reads?.ages() ?? {},
      ...(writer === null ? {} : { today: () => readToday(reader, systemClock.wallMs()) }),
    },
    config.version,
  );
  return {
    config,
    parts,
    writer,
    admin,
    captures: reader,
    probes: { actors: isReady },
    asker: client,
    shared,
    arrivals: allocateArrivals(),
    queue_places: QueuePlaces.allocate(),
    log,
    renderMetrics: () => metrics.render(),
    compute: compute?.run ?? null,
  };
}

/** Starts the additional server threads with their hosts of actors. They do not listen yet. */
async function startOthers(
  { memory, log, running }: Starting,
  { threads, placement, isReady }: StartedActors,
  {
    config,
    parts,
    shared,
    arrivals,
    queue_places,
    admin,
    captures,
    compute,
    renderMetrics,
  }: ServerThreadServices,
): Promise<ServerThreads> {
  const others = await running.start({
    start: () =>
      new ServerThreads({
        config,
        parts,
        placement,
        shared,
        arrivals,
        queue_places,
        memory,
        actors: threads,
        admin,
        captures,
        isReady,
        compute,
        renderMetrics,
        onServerEnded: (thrown) => log.error({ err: thrown }, 'a server thread ended'),
      }),
    stop: (started) => started.stop(),
  });
  await others.open();
  return others;
}

/** Names the component that checks request framing. Call it once a server has loaded the parser. */
export function guardOf({ api, gateway }: Config): FramingGuard {
  return findFramingGuard(api.tls !== null || gateway.tls !== null);
}

/** Takes the port from a listener's URL. @returns [] for a listener that was not requested */
function portOf(url: string | null): number[] {
  return url === null ? [] : [Number(new URL(url).port)];
}

/**
 * Reserves the ports on which several threads will listen, until `release` is called. For a single thread, it reserves
 * none.
 * @returns the configuration with the ports, where 0 is replaced by a free port
 */
async function holdPorts(config: Config, parts: Parts): Promise<{ config: Config; release(): void }> {
  if (config.server_threads === 1) return { config, release: () => {} };
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

/** How long a scrape of the metrics waits for the figures of the day. */
const TODAY_MS = 2_000;

/**
 * Asks the capture reader for the figures of this UTC day.
 * @returns null while older exchanges of the day are still being read, and if the reader gives no answer in time
 */
async function readToday(reader: CaptureReaderProcess, nowMs: number): Promise<TrafficFigures | null> {
  const day = new Date(nowMs).toISOString().slice(0, 10);
  const question: FigureQuestion = { by: 'day', from_day: day, to_day: day, where: {} };
  const asked = reader.ask({ name: 'figures', question }).catch(() => null);
  const answer = await Promise.race([asked, pause(TODAY_MS, null, { ref: false })]);
  if (answer?.type !== 'json') return null;
  const { total, is_whole } = JSON.parse(Buffer.from(answer.json).toString()) as FigureReport;
  return is_whole ? total : null;
}
