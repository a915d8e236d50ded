/**
 * The further server threads from the outside: starts them, connects them to the actor threads, answers their admin
 * requests, stops them. Part of the composition root; main thread.
 */
import { MessageChannel } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { Piscina } from 'piscina';
import type { MappedMemory } from '../../actors/capture-writer/mapped-memory.ts';
import type { SharedMemory } from '../api/checks.ts';
import type { Config } from '../config.ts';
import type { CaptureAsker } from '../domain/captured-run.ts';
import { toErrorData } from '../errors.ts';
import type { CaptureAdmin } from '../gateway/admin.ts';
import type { ThreadCapture } from '../gateway/capture/capture-control.ts';
import type { ComputeTask } from '../runtime/actor-thread.ts';
import type { ActorThreads } from '../runtime/actor-threads.ts';
import type { Placement } from '../runtime/protocol.ts';
import { beforeExit, endPool, waitForLoading } from '../std/loading-threads.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import type { Parts } from './server-thread.ts';
import type {
  AdminAnswer,
  RemoteServices,
  ServerThreadControl,
  ServerThreadTask,
} from './server-thread-protocol.ts';
import type { StudentSeeker } from './student-thread.ts';

export interface ServerThreadsOptions {
  /** With the ports that the main thread's server really listens on. */
  config: Config;
  parts: Parts;
  placement: Placement;
  shared: SharedMemory;
  /** For what is captured; null where there is none that the capture process sees. */
  memory: MappedMemory | null;
  actors: ActorThreads;
  admin: CaptureAdmin;
  captures: CaptureAsker;
  isReady: () => Promise<boolean>;
  /** null where there is no API. */
  compute: ComputeTask | null;
  renderMetrics: () => Promise<string>;
  /** Told of a server thread that failed. */
  onServerEnded: (thrown: unknown) => void;
}

export class ServerThreads {
  readonly servers: readonly Comlink.Remote<ServerThreadControl>[];
  readonly #pool: Piscina;
  readonly #ended: Promise<unknown>[];
  readonly #forgetExit: () => void;
  readonly #options: ServerThreadsOptions;

  /** Starts `config.server_threads - 1` threads; `open` and `start` do the rest. */
  constructor(options: ServerThreadsOptions) {
    this.#options = options;
    const count = options.config.server_threads - 1;
    this.#pool = new Piscina({
      filename: resolveModuleUrl('./server-thread-entry.ts', import.meta.url).href,
      minThreads: 0, // or it would start a thread of its own instead of a dead one
      maxThreads: count,
      concurrentTasksPerWorker: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      atomics: 'disabled',
    });
    const runs = Array.from({ length: count }, (_, at) => this.#startOne(options, hostOf(options, at)));
    this.servers = runs.map((run) => run.control);
    this.#ended = runs.map((run) => run.ended);
    this.#forgetExit = beforeExit(() => Promise.allSettled(this.#askAll((server) => server.hangUp())));
  }

  /** Opens their hosts of actors, and links them with everybody. */
  async open(): Promise<void> {
    if (!this.#options.parts.api) return;
    await Promise.all(this.#askAll((server) => server.openHost()));
    for (const at of this.servers.keys()) this.#linkHost(at);
  }

  /**
   * @returns when all listen
   * @throws what a thread fails with meanwhile
   */
  async start(): Promise<void> {
    await Promise.all(this.#askAll((server) => server.start()));
  }

  /** What they captured, as the admin routes ask for it. */
  get captures(): readonly ThreadCapture[] {
    return this.servers as unknown as readonly ThreadCapture[];
  }

  /** Gives each a port to the student, now and whenever there is another. */
  connectStudent(student: { connect(seeker: StudentSeeker): void }): void {
    for (const server of this.servers) {
      student.connect({
        attach: (port, facts) => {
          void server.attachStudent(Comlink.transfer(port, [port]), facts).catch(() => port.close());
        },
        withdraw: () => void server.withdrawStudent().catch(() => {}),
      });
    }
  }

  /** Lets all requests finish; the actors go on. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#askAll((server) => server.drain()));
  }

  /** Drains what has not been drained, ends the actors and the threads, those that are loading after 15 s at most. */
  async stop(): Promise<void> {
    // The answer to `stop` may be lost with the port that closes behind it; the end of the task is answer enough.
    const asked = Promise.allSettled(this.#askAll((server) => server.stop()));
    for (const thread of this.#pool.threads) {
      // One that has not come up by then never hears of it.
      void waitForLoading([thread]).then(async (hasLoaded) => {
        if (!hasLoaded) await thread.terminate();
      });
    }
    await asked;
    await Promise.allSettled(this.#ended);
    await endPool(this.#pool);
    this.#forgetExit();
  }

  /** Calls over comlink never settle once the other side is gone; the end of its task does. */
  #askAll(ask: (server: Comlink.Remote<ServerThreadControl>) => Promise<unknown>): Promise<unknown>[] {
    return this.servers.map((server, at) => Promise.race([ask(server), this.#ended[at]]));
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
    ended: Promise<void>;
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
      memory,
      control: control.port2,
      services: services.port2,
    };
    const ended = (
      this.#pool.run(task, { transferList: [control.port2, services.port2] }) as Promise<void>
    ).finally(() => {
      control.port1.close();
      services.port1.close();
    });
    // A server that dies takes its connections with it, and the native library ends the process; nothing to mend here.
    ended.catch(onServerEnded);
    const wrapped = Comlink.wrap<ServerThreadControl>(nodeEndpoint(control.port1));
    actors.connectClient(
      (index, end) => void wrapped.connectHost(index, Comlink.transfer(end, [end.port])),
      host,
    );
    return { control: wrapped, ended };
  }
}

/** The main thread's server has the first host, the others follow. */
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
