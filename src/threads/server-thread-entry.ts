/**
 * Entry of a server thread other than the main one: a ServerThread with links to the actor threads. The main thread
 * controls it over comlink.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { CaptureWriterClient } from '../../actors/capture-writer/client.ts';
import { MemoryPart } from '../../actors/capture-writer/mapped-memory.ts';
import type { MetricsData } from '../api/metrics.ts';
import type { CaptureAnswer, CaptureAsker } from '../domain/captured-run.ts';
import { type ErrorData, fromErrorData, toErrorData } from '../errors.ts';
import { CAPTURE_ADMIN_METHODS, type CaptureAdmin } from '../gateway/capture/capture-control.ts';
import type { CaptureCounters } from '../gateway/capture/capture-queue.ts';
import type { RelegationCounters } from '../gateway/relegation/relegation-ledger.ts';
import type { ProxiedRoute } from '../gateway/route-table.ts';
import { hangUp, loadServer } from '../http/server.ts';
import { createLog, type Log } from '../log.ts';
import { ActorClient } from '../runtime/actor-client.ts';
import type { HostStats } from '../runtime/host-stats.ts';
import { type LinkEnd, MessagePortLink } from '../runtime/message-port-link.ts';
import { loopScheduler } from '../runtime/scheduler.ts';
import type { ServerHost } from '../runtime/server-host.ts';
import { createDeferred } from '../std/deferred.ts';
import { runOwnThread } from '../std/own-thread.ts';
import { servicePaths } from '../storage/lmdb/stores.ts';
import type { StudentFacts } from '../student/serving/protocol.ts';
import { logDamagedValues } from './damage-log.ts';
import { QuietWatch } from './quiet-watch.ts';
import { startServerActors } from './server-actors.ts';
import { ServerThread } from './server-thread.ts';
import type {
  AdminAnswer,
  RemoteServices,
  ServerThreadControl,
  ServerThreadTask,
} from './server-thread-protocol.ts';
import { tellThreadEnd } from './thread-end.ts';

// Load the parser while the thread starts (std/loading-threads.ts), and not when the thread begins
// to listen.
await loadServer();

/** Runs the thread until it is stopped. */
async function serverThread(task: ServerThreadTask): Promise<void> {
  const server = new ControlledServer(task);
  const watch = new QuietWatch({ collects: false, trims: false });
  Comlink.expose(server, nodeEndpoint(task.control));
  await server.stopped;
  watch.stop();
  setImmediate(() => {
    task.control.close();
    task.services.close();
  });
}

/** This thread's server and host of actors, as the main thread controls them. */
class ControlledServer implements ServerThreadControl {
  readonly #task: ServerThreadTask;
  readonly #log: Log;
  readonly #forgetEnd: () => void;
  readonly #services: Comlink.Remote<RemoteServices>;
  readonly #actors: ActorClient;
  readonly #stopped = createDeferred<void>();
  #server: ServerThread | null = null;
  #host: ServerHost | null = null;

  constructor(task: ServerThreadTask) {
    this.#task = task;
    this.#log = createLog(task.config.log_level);
    logDamagedValues(this.#log);
    this.#forgetEnd = tellThreadEnd(this.#log);
    this.#services = Comlink.wrap<RemoteServices>(nodeEndpoint(task.services));
    this.#actors = new ActorClient(task.placement, loopScheduler, undefined, task.host);
  }

  get stopped(): Promise<void> {
    return this.#stopped.promise;
  }

  connectHost(index: number, end: LinkEnd): void {
    this.#actors.attach(index, new MessagePortLink(end));
  }

  openHost(): void {
    const { host: index, placement, config, shared } = this.#task;
    this.#host = startServerActors({
      index,
      placement,
      actors: this.#actors,
      databases: servicePaths(config, shared.seat),
      write_turn: shared.write_turn,
      has_live_stream: config.engines.live_stream !== null,
      live_event_days: config.retention_days.live_events,
      log: this.#log,
      onUp: () => void this.#services.hostIsUp(),
    });
  }

  connectClient(end: LinkEnd): void {
    if (this.#host === null) end.port.close();
    else this.#host.connectClient(end);
  }

  connectPeer(index: number, end: LinkEnd): void {
    if (this.#host === null) end.port.close();
    else this.#host.connectPeer(index, end);
  }

  hostStats(): HostStats | null {
    return this.#host?.stats() ?? null;
  }

  async start(): Promise<void> {
    const { config, parts, shared, arrivals, queue_places } = this.#task;
    await this.#actors.waitUp();
    this.#server = await ServerThread.start({
      config,
      parts,
      writer:
        parts.gateway && config.capture.enabled
          ? new CaptureWriterClient(this.#actors, ownMemory(this.#task, config.server_threads))
          : null,
      admin: remoteAdmin(this.#services),
      captures: remoteCaptures(this.#services),
      probes: { actors: () => this.#services.isReady() },
      asker: this.#actors,
      compute: parts.api ? (name, input) => this.#services.compute(name, input) : null,
      shared,
      arrivals,
      queue_places,
      log: this.#log,
      renderMetrics: () => this.#services.renderMetrics(),
    });
  }

  async counters(): Promise<CaptureCounters | null> {
    return (await this.#server?.counters()) ?? null;
  }

  async relegation(): Promise<RelegationCounters | null> {
    return (await this.#server?.relegation()) ?? null;
  }

  attachStudent(port: MessagePort, facts: StudentFacts): void {
    if (this.#server === null) port.close();
    else this.#server.attachStudent(port, facts);
  }

  withdrawStudent(isExpected: boolean): void {
    this.#server?.withdrawStudent(isExpected);
  }

  async openRoute(route: ProxiedRoute): Promise<number> {
    if (this.#server === null) throw new Error('the server is being drained');
    return this.#server.openRoute(route);
  }

  async closeRoute(authority: string): Promise<void> {
    await this.#server?.closeRoute(authority);
  }

  async metrics(): Promise<MetricsData> {
    return (await this.#server?.metrics()) ?? [];
  }

  async settle(deadlineMs: number): Promise<ErrorData | null> {
    try {
      await this.#server?.settle(deadlineMs);
      return null;
    } catch (thrown) {
      return toErrorData(thrown);
    }
  }

  async kill(): Promise<void> {
    await this.#server?.kill();
  }

  async drain(): Promise<void> {
    const drained = this.#server;
    this.#server = null;
    await drained?.stop();
  }

  async stop(): Promise<void> {
    await this.drain();
    await this.#host?.stop();
    // A start that is in progress may already listen, or be about to listen.
    await hangUp();
    this.#actors.close();
    this.#forgetEnd();
    this.#stopped.resolve();
  }

  hangUp(): Promise<void> {
    this.#forgetEnd();
    return hangUp();
  }
}

/**
 * Returns the part of the memory for captured exchanges that belongs to this server; null without such
 * memory. The main thread's server has the first part.
 */
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

/** Errors lose their class between threads, so they are sent as data and rebuilt here. */
function remoteAdmin(services: Comlink.Remote<RemoteServices>): CaptureAdmin {
  const call = async (name: keyof CaptureAdmin): Promise<object> => {
    const answer = (await services.admin(name)) as AdminAnswer;
    if (!answer.ok) throw fromErrorData(answer.error);
    return answer.value;
  };
  return Object.fromEntries(
    CAPTURE_ADMIN_METHODS.map((name) => [name, () => call(name)]),
  ) as unknown as CaptureAdmin;
}

runOwnThread(serverThread);
