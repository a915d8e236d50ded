/**
 * The further front threads from the outside: starts them, connects them to the actor threads, answers their admin
 * requests, stops them. Part of the composition root; main thread.
 */
import { MessageChannel } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { Piscina } from 'piscina';
import type { SharedMemory } from './api/checks.ts';
import type { Config } from './config.ts';
import { type ErrorData, toErrorData } from './errors.ts';
import type { Parts } from './front.ts';
import type { FrontTask, FrontThreadControl } from './front-thread.ts';
import type { CaptureAdmin } from './gateway/admin.ts';
import type { ComputeTask } from './runtime/actor-thread.ts';
import type { ActorThreads } from './runtime/actor-threads.ts';
import type { Placement } from './runtime/protocol.ts';
import { resolveModuleUrl } from './std/module-url.ts';

/** Outcome of an admin request, as data. */
export type AdminAnswer = { ok: true; value: object } | { ok: false; error: ErrorData };

/** What a front thread may ask of the main thread; called through comlink. */
export interface RemoteServices {
  admin(name: keyof CaptureAdmin): Promise<AdminAnswer>;
  isReady(): Promise<boolean>;
  /** Runs a task of the stateless pool. */
  compute(task: string, input: unknown): Promise<unknown>;
  renderMetrics(): Promise<string>;
}

export interface FrontThreadsOptions {
  /** With the ports that the main thread's front really listens on. */
  config: Config;
  parts: Parts;
  placement: Placement;
  shared: SharedMemory;
  actors: ActorThreads;
  admin: CaptureAdmin;
  isReady: () => Promise<boolean>;
  /** null where there is no API. */
  compute: ComputeTask | null;
  renderMetrics: () => Promise<string>;
  /** Told of a front thread that failed. */
  onFrontEnded: (thrown: unknown) => void;
}

export class FrontThreads {
  readonly fronts: readonly Comlink.Remote<FrontThreadControl>[];
  readonly #pool: Piscina;
  readonly #ended: Promise<unknown>[];

  /** Starts `config.front_threads - 1` of them; resolves when all listen. */
  static async start(options: FrontThreadsOptions): Promise<FrontThreads> {
    const threads = new FrontThreads(options);
    await Promise.all(threads.fronts.map((front) => front.start()));
    return threads;
  }

  private constructor(options: FrontThreadsOptions) {
    const count = options.config.front_threads - 1;
    this.#pool = new Piscina({
      filename: resolveModuleUrl('./front-thread.ts', import.meta.url).href,
      minThreads: count,
      maxThreads: count,
      concurrentTasksPerWorker: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      atomics: 'disabled',
    });
    const runs = Array.from({ length: count }, () => this.#startOne(options));
    this.fronts = runs.map((run) => run.control);
    this.#ended = runs.map((run) => run.ended);
  }

  /** Drains all of them at once and ends the threads. */
  async stop(): Promise<void> {
    // The answer to `stop` may be lost with the port that closes behind it; the end of the task is answer enough.
    await Promise.all(this.fronts.map((front, at) => Promise.race([front.stop(), this.#ended[at]])));
    await Promise.all(this.#ended);
    await this.#pool.destroy();
  }

  #startOne({
    config,
    parts,
    placement,
    shared,
    actors,
    admin,
    isReady,
    compute,
    renderMetrics,
    onFrontEnded,
  }: FrontThreadsOptions): {
    control: Comlink.Remote<FrontThreadControl>;
    ended: Promise<void>;
  } {
    const control = new MessageChannel();
    const services = new MessageChannel();
    const remote: RemoteServices = {
      admin: (name) => answerAs(admin, name),
      isReady,
      compute: (task, input) => compute!(task, input),
      renderMetrics,
    };
    Comlink.expose(remote, nodeEndpoint(services.port1));
    const task: FrontTask = {
      config,
      parts,
      placement,
      shared,
      control: control.port2,
      services: services.port2,
    };
    const ended = (
      this.#pool.run(task, { transferList: [control.port2, services.port2] }) as Promise<void>
    ).finally(() => {
      control.port1.close();
      services.port1.close();
    });
    // A front that dies takes its connections with it, and the native library ends the process; nothing to mend here.
    ended.catch(onFrontEnded);
    const wrapped = Comlink.wrap<FrontThreadControl>(nodeEndpoint(control.port1));
    actors.connectFront((index, end) => void wrapped.connectHost(index, Comlink.transfer(end, [end.port])));
    return { control: wrapped, ended };
  }
}

async function answerAs(admin: CaptureAdmin, name: keyof CaptureAdmin): Promise<AdminAnswer> {
  try {
    return { ok: true, value: await admin[name]() };
  } catch (thrown) {
    return { ok: false, error: toErrorData(thrown) };
  }
}
