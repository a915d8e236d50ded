/**
 * A further server thread from the inside: a ServerThread with its own links to the actor threads, steered by the main thread
 * over comlink. Entry of a pool task. Server threads other than the main one.
 */
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { CaptureWriterClient } from '../../actors/capture-writer/client.ts';
import { MemoryPart } from '../../actors/capture-writer/mapped-memory.ts';
import type { CaptureAnswer, CaptureAsker } from '../domain/captured-run.ts';
import { fromErrorData } from '../errors.ts';
import type { CaptureAdmin } from '../gateway/admin.ts';
import { hangUp, loadServer } from '../http/server.ts';
import { createLog } from '../log.ts';
import { ActorClient } from '../runtime/actor-client.ts';
import { MessagePortLink } from '../runtime/message-port-link.ts';
import { loopScheduler } from '../runtime/scheduler.ts';
import type { ServerHost } from '../runtime/server-host.ts';
import { createDeferred } from '../std/deferred.ts';
import { databasePaths } from '../storage/lmdb/stores.ts';
import { startServerActors } from './server-actors.ts';
import { ServerThread } from './server-thread.ts';
import type {
  AdminAnswer,
  RemoteServices,
  ServerThreadControl,
  ServerThreadTask,
} from './server-thread-protocol.ts';
import { tellThreadEnd } from './thread-end.ts';

// While the thread counts as one that is loading (std/loading-threads.ts), and not when it is asked to listen.
await loadServer();

/** Runs the thread until it is stopped. */
export default async function serverThread(task: ServerThreadTask): Promise<void> {
  const { config, parts } = task;
  const log = createLog(config.log_level);
  const forgetEnd = tellThreadEnd(log);
  const services = Comlink.wrap<RemoteServices>(nodeEndpoint(task.services));
  const actors = new ActorClient(task.placement, loopScheduler, undefined, task.host);
  const stopped = createDeferred<void>();
  let server: ServerThread | null = null;
  let host: ServerHost | null = null;
  const drain = async () => {
    const drained = server;
    server = null;
    await drained?.stop();
  };
  const control: ServerThreadControl = {
    connectHost: (index, end) => actors.attach(index, new MessagePortLink(end)),
    openHost: () => {
      host = startServerActors({
        index: task.host,
        placement: task.placement,
        actors: actors,
        databases: databasePaths(config.data_dir, config.data_key),
        write_turn: task.shared.write_turn,
        has_live_stream: config.engines.live_stream !== null,
        live_event_days: config.retention_days.live_events,
        log,
        onUp: () => void services.hostIsUp(),
      });
    },
    connectClient: (end) => (host === null ? end.port.close() : host.connectClient(end)),
    connectPeer: (index, end) => (host === null ? end.port.close() : host.connectPeer(index, end)),
    hostStats: () => host?.stats() ?? null,
    start: async () => {
      await actors.waitUp();
      server = await ServerThread.start({
        config,
        parts,
        writer:
          parts.gateway && config.capture.enabled
            ? new CaptureWriterClient(actors, ownMemory(task, config.server_threads))
            : null,
        admin: remoteAdmin(services),
        captures: remoteCaptures(services),
        probes: { actors: () => services.isReady() },
        asker: actors,
        compute: parts.api ? (name, input) => services.compute(name, input) : null,
        shared: task.shared,
        log,
        renderMetrics: () => services.renderMetrics(),
      });
    },
    counters: async () => (await server?.counters()) ?? null,
    relegation: async () => (await server?.relegation()) ?? null,
    attachStudent: (port, facts) => (server === null ? port.close() : server.attachStudent(port, facts)),
    openRoute: async (route) => {
      if (server === null) throw new Error('the server is being drained');
      return server.openRoute(route);
    },
    withdrawStudent: () => server?.withdrawStudent(),
    metrics: async () => (await server?.metrics()) ?? [],
    settle: async (deadlineMs) => server?.settle(deadlineMs),
    kill: async () => server?.kill(),
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

/** This server's part; the main thread's has the first. */
function ownMemory({ memory, host, placement }: ServerThreadTask, servers: number): MemoryPart | null {
  return memory === null ? null : new MemoryPart(memory, host - placement.hosts, servers);
}

function remoteCaptures(services: Comlink.Remote<RemoteServices>): CaptureAsker {
  return {
    ask: async (question) => {
      const answer = (await services.readCaptures(question)) as AdminAnswer;
      if (!answer.ok) throw fromErrorData(answer.error);
      return answer.value as CaptureAnswer;
    },
  };
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
