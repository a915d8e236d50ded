/**
 * Controls the additional server threads: starts them, connects them to the actor threads, answers
 * their admin requests, and stops them. Part of the composition root; main thread.
 */
import { MessageChannel } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import type { MappedMemory } from '../../actors/capture-writer/mapped-memory.ts';
import type { SharedMemory } from '../api/checks.ts';
import type { Probed } from '../api/health.ts';
import type { Config } from '../config.ts';
import type { CaptureAsker } from '../domain/captured-run.ts';
import { fromErrorData, toErrorData } from '../errors.ts';
import type { CaptureAdmin, ThreadCapture } from '../gateway/capture/capture-control.ts';
import type { ComputeTask } from '../runtime/actor-thread.ts';
import type { ActorThreads } from '../runtime/actor-threads.ts';
import type { Placement } from '../runtime/protocol.ts';
import { beforeExit, waitForLoading } from '../std/loading-threads.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { OwnThread } from '../std/own-thread.ts';
import type { Parts } from './server-thread.ts';
import type {
  AdminAnswer,
  RemoteServices,
  ServerThreadControl,
  ServerThreadTask,
} from './server-thread-protocol.ts';
import type { StudentSeeker } from './student-thread.ts';

interface ServerThreadsOptions {
  /** The configuration, with the ports on which the main thread's server listens. */
  config: Config;
  parts: Parts;
  placement: Placement;
  shared: SharedMemory;
  arrivals: SharedArrayBuffer;
  queue_places: SharedArrayBuffer;
  /** Memory for captured exchanges; null without capture, or if the capture process cannot map it. */
  memory: MappedMemory | null;
  actors: ActorThreads;
  admin: CaptureAdmin;
  captures: CaptureAsker;
  isReady: () => Promise<Probed>;
  /** null without an API. */
  compute: ComputeTask | null;
  renderMetrics: () => Promise<string>;
  /** Called when a server thread failed. */
  onServerEnded: (thrown: unknown) => void;
}

export class ServerThreads {
  readonly servers: readonly Comlink.Remote<ServerThreadControl>[];
  readonly #threads: readonly OwnThread[];
  readonly #forgetExit: () => void;
  readonly #options: ServerThreadsOptions;

  /**
   * Starts `config.server_threads - 1` threads. Call `open` and then `start`, so that they serve.
   */
  constructor(options: ServerThreadsOptions) {
    this.#options = options;
    const count = options.config.server_threads - 1;
    const started = Array.from({ length: count }, (_, at) => this.#startOne(options, hostOf(options, at)));
    this.servers = started.map(({ control }) => control);
    this.#threads = started.map(({ thread }) => thread);
    this.#forgetExit = beforeExit(() => Promise.allSettled(this.#askAll((server) => server.hangUp())));
  }

  /**
   * Opens the threads' hosts of actors, and connects the hosts with each other and with all
   * clients.
   */
  async open(): Promise<void> {
    if (!this.#options.parts.api) return;
    await Promise.all(this.#askAll((server) => server.openHost()));
    for (const at of this.servers.keys()) this.#linkHost(at);
  }

  /**
   * Starts the servers, and waits until all of them listen.
   * @throws the error of a thread that fails meanwhile
   */
  async start(): Promise<void> {
    await Promise.all(this.#askAll((server) => server.start()));
  }

  /** The counters and the capture queues of these threads, for the admin routes. */
  get captures(): readonly ThreadCapture[] {
    return this.servers.map((server) => ({
      counters: () => server.counters(),
      relegation: () => server.relegation(),
      kill: () => server.kill(),
      settle: async (deadlineMs: number) => {
        const refused = await server.settle(deadlineMs);
        if (refused !== null) throw fromErrorData(refused);
      },
    }));
  }

  /** Gives each thread a port to the student, now and to each later student. */
  connectStudent(student: { connect(seeker: StudentSeeker): void }): void {
    for (const server of this.servers) {
      student.connect({
        attach: (port, facts) => {
          void server.attachStudent(Comlink.transfer(port, [port]), facts).catch(() => port.close());
        },
        withdraw: (isExpected) => void server.withdrawStudent(isExpected).catch(() => {}),
      });
    }
  }

  /** Waits for the requests in progress, and accepts no more. The actors continue. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#askAll((server) => server.drain()));
  }

  /** Drains what is not drained yet, then ends the actors and the threads. Loading threads get up to 15 s. */
  async stop(): Promise<void> {
    // The port closes right after the answer to `stop`, so the answer may be lost. So wait for the
    // thread's end instead.
    const asked = Promise.allSettled(this.#askAll((server) => server.stop()));
    for (const { worker } of this.#threads) {
      // A thread that has not loaded by then never receives the stop.
      void waitForLoading([worker]).then(async (hasLoaded) => {
        if (!hasLoaded) await worker.terminate();
      });
    }
    await asked;
    await Promise.allSettled(this.#threads.map(({ ended }) => ended));
    this.#forgetExit();
  }

  /**
   * Calls all servers. Calls over comlink never settle after the other side has ended, so each call also ends with its
   * thread.
   */
  #askAll(ask: (server: Comlink.Remote<ServerThreadControl>) => Promise<unknown>): Promise<unknown>[] {
    return this.servers.map((server, at) => Promise.race([ask(server), this.#threads[at]!.ended]));
  }

  #linkHost(at: number): void {
    const server = this.servers[at]!;
    const lost = () => {};
    this.#options.actors.addHost(hostOf(this.#options, at), {
      connectClient: (end) => void server.connectClient(Comlink.transfer(end, [end.port])).catch(lost),
      connectPeer: (index, end) =>
        void server.connectPeer(index, Comlink.transfer(end, [end.port])).catch(lost),
      stats: () => server.hostStats(),
    });
  }

  #startOne(
    {
      config,
      parts,
      placement,
      shared,
      arrivals,
      queue_places,
      memory,
      actors,
      admin,
      captures,
      isReady,
      compute,
      renderMetrics,
      onServerEnded,
    }: ServerThreadsOptions,
    host: number,
  ): {
    control: Comlink.Remote<ServerThreadControl>;
    thread: OwnThread;
  } {
    const control = new MessageChannel();
    const services = new MessageChannel();
    const remote: RemoteServices = {
      admin: (name) => answerAs(() => admin[name]()),
      readCaptures: (question) => answerAs(() => captures.ask(question)),
      isReady,
      compute: (task, input) => compute!(task, input),
      renderMetrics,
      hostIsUp: () => this.#linkHost(host - placement.hosts - 1),
    };
    Comlink.expose(remote, nodeEndpoint(services.port1));
    const task: ServerThreadTask = {
      config,
      parts,
      placement,
      host,
      shared,
      arrivals,
      queue_places,
      memory,
      control: control.port2,
      services: services.port2,
    };
    const thread = new OwnThread(resolveModuleUrl('./server-thread-entry.ts', import.meta.url), task, {
      transfer: [control.port2, services.port2],
    });
    // When a server thread fails, its sockets are left open, and the native library then aborts the
    // process.
    void thread.ended.catch(onServerEnded).finally(() => {
      control.port1.close();
      services.port1.close();
    });
    const wrapped = Comlink.wrap<ServerThreadControl>(nodeEndpoint(control.port1));
    actors.connectClient(
      (index, end) => void wrapped.connectHost(index, Comlink.transfer(end, [end.port])),
      host,
    );
    return { control: wrapped, thread };
  }
}

/**
 * Returns the number of a server thread's host. The main thread's host has the first number after the actor
 * threads; the additional servers have the next ones.
 */
function hostOf({ placement }: ServerThreadsOptions, at: number): number {
  return placement.hosts + 1 + at;
}

async function answerAs(ask: () => Promise<object>): Promise<AdminAnswer> {
  try {
    return { ok: true, value: await ask() };
  } catch (thrown) {
    return { ok: false, error: toErrorData(thrown) };
  }
}
