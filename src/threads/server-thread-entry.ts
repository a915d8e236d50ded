/**
 * A further front thread from the inside: a Front with its own links to the actor threads, steered by the main thread
 * over comlink. Entry of a pool task. Front threads other than the main one.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { CaptureWriterClient } from '../../actors/capture-writer/client.ts';
import { type MappedMemory, MemoryPart } from '../../actors/capture-writer/mapped-memory.ts';
import type { SharedMemory } from '../api/checks.ts';
import type { MetricsData } from '../api/metrics.ts';
import type { Config } from '../config.ts';
import { fromErrorData } from '../errors.ts';
import type { CaptureAdmin } from '../gateway/admin.ts';
import type { CaptureFront } from '../gateway/capture/capture-control.ts';
import { hangUp, loadServer } from '../http/server.ts';
import { createLog } from '../log.ts';
import { Front as ActorFront } from '../runtime/front.ts';
import type { FrontHost } from '../runtime/front-host.ts';
import type { HostStats } from '../runtime/host-stats.ts';
import { type LinkEnd, PortLink } from '../runtime/port-link.ts';
import type { Placement } from '../runtime/protocol.ts';
import { loopScheduler } from '../runtime/scheduler.ts';
import { createDeferred } from '../std/deferred.ts';
import { databasePaths } from '../storage/lmdb/stores.ts';
import type { StudentFacts } from '../student/serving/protocol.ts';
import { startFrontHost } from './server-actors.ts';
import { Front, type Parts } from './server-thread.ts';
import type { AdminAnswer, RemoteServices } from './server-threads.ts';
import { tellThreadEnd } from './thread-end.ts';

// While the thread counts as one that is loading (std/loading-threads.ts), and not when it is asked to listen.
await loadServer();

/** What a front thread is started with; both ports are transferred. */
export interface FrontTask {
  /** Ports of the listeners are the ones that the main thread's front got. */
  config: Config;
  parts: Parts;
  placement: Placement;
  /** Number of this thread's host of actors, where there is an API. */
  host: number;
  shared: SharedMemory;
  /** For what is captured; null where there is none that the capture process sees. */
  memory: MappedMemory | null;
  control: MessagePort;
  /** Leads to the main thread's RemoteServices. */
  services: MessagePort;
}

/** What the main thread may ask of a front thread; called through comlink. */
export interface FrontThreadControl extends CaptureFront {
  connectHost(index: number, end: LinkEnd): void;
  /** Opens the host of actors, so that others can be linked with it. */
  openHost(): void;
  /** A link to another thread's front. */
  connectFront(end: LinkEnd): void;
  /** A link to another host. */
  connectPeer(index: number, end: LinkEnd): void;
  /** null while there is none. */
  hostStats(): HostStats | null;
  /** Resolves once it listens. */
  start(): Promise<void>;
  metrics(): Promise<MetricsData>;
  /** A port to the student. */
  attachStudent(port: MessagePort, facts: StudentFacts): void;
  /** Lets the requests finish; the actors go on. */
  drain(): Promise<void>;
  stop(): Promise<void>;
  /** Closes all sockets at once: the process is about to exit. */
  hangUp(): Promise<void>;
}

/** Runs the thread until it is stopped. */
export default async function frontThread(task: FrontTask): Promise<void> {
  const { config, parts } = task;
  const log = createLog(config.log_level);
  const forgetEnd = tellThreadEnd(log);
  const services = Comlink.wrap<RemoteServices>(nodeEndpoint(task.services));
  const actors = new ActorFront(task.placement, loopScheduler);
  const stopped = createDeferred<void>();
  let front: Front | null = null;
  let host: FrontHost | null = null;
  const drain = async () => {
    const drained = front;
    front = null;
    await drained?.stop();
  };
  const control: FrontThreadControl = {
    connectHost: (index, end) => actors.attach(index, new PortLink(end)),
    openHost: () => {
      host = startFrontHost({
        index: task.host,
        placement: task.placement,
        front: actors,
        databases: databasePaths(config.data_dir, config.data_key),
        has_live_stream: config.engines.live_stream !== null,
        log,
        onUp: () => void services.hostIsUp(),
      });
    },
    connectFront: (end) => (host === null ? end.port.close() : host.connectFront(end)),
    connectPeer: (index, end) => (host === null ? end.port.close() : host.connectPeer(index, end)),
    hostStats: () => host?.stats() ?? null,
    start: async () => {
      await actors.waitUp();
      front = await Front.start({
        config,
        parts,
        writer:
          parts.gateway && config.capture.enabled
            ? new CaptureWriterClient(actors, ownMemory(task, config.front_threads))
            : null,
        admin: remoteAdmin(services),
        probes: { actors: () => services.isReady() },
        asker: actors,
        compute: parts.api ? (name, input) => services.compute(name, input) : null,
        shared: task.shared,
        log,
        renderMetrics: () => services.renderMetrics(),
      });
    },
    counters: async () => (await front?.counters()) ?? null,
    relegation: async () => (await front?.relegation()) ?? null,
    attachStudent: (port, facts) => (front === null ? port.close() : front.attachStudent(port, facts)),
    metrics: async () => (await front?.metrics()) ?? [],
    settle: async (deadlineMs) => front?.settle(deadlineMs),
    kill: async () => front?.kill(),
    drain,
    stop: async () => {
      await drain();
      await host?.stop();
      // A start that is still under way may have begun to listen, or be about to.
      await hangUp();
      actors.close();
      forgetEnd();
      stopped.resolve();
    },
    hangUp: () => {
      forgetEnd();
      return hangUp();
    },
  };
  Comlink.expose(control, nodeEndpoint(task.control));
  await stopped.promise;
  setImmediate(() => {
    task.control.close();
    task.services.close();
  });
}

/** This front's part; the main thread's has the first. */
function ownMemory({ memory, host, placement }: FrontTask, fronts: number): MemoryPart | null {
  return memory === null ? null : new MemoryPart(memory, host - placement.hosts, fronts);
}

/** Errors lose their class on the way between threads, so they come as data and are rebuilt here. */
function remoteAdmin(services: Comlink.Remote<RemoteServices>): CaptureAdmin {
  const call = async <N extends keyof CaptureAdmin>(
    name: N,
  ): Promise<Awaited<ReturnType<CaptureAdmin[N]>>> => {
    const answer = (await services.admin(name)) as AdminAnswer;
    if (!answer.ok) throw fromErrorData(answer.error);
    return answer.value as Awaited<ReturnType<CaptureAdmin[N]>>;
  };
  return {
    stats: () => call('stats'),
    health: () => call('health'),
    flush: () => call('flush'),
    rotate: () => call('rotate'),
    kill: () => call('kill'),
  };
}
