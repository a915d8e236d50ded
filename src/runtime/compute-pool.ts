/**
 * The stateless pool from the outside: threads that run tasks by name, for work that would hold up a thread on which
 * others wait. A thread that dies fails its own tasks at once and is replaced. Knows no task; what they are is in the
 * entry module. Piscina queues the calls and replaces threads; a thread with one lasting task is an OwnThread
 * (std/own-thread.ts) instead. Main thread; other threads reach it through a port (`offer`, `openCompute`).
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { Piscina } from 'piscina';
import { beforeExit, endPool, isLoading, THREAD_LOADING_MS } from '../std/loading-threads.ts';
import type { ComputeTask } from './actor-thread.ts';
import { CHANNEL_TASK, PING_TASK } from './direct-channel.ts';

interface ComputePoolOptions {
  /** Module whose default export runs a {@link ComputeCall}. */
  entry: URL;
  threads: number;
  /** Plain data for the threads' composition root; they find it as piscina's `workerData`. */
  options: unknown;
  /** Calls that may wait for a thread; one more is refused. */
  queue_calls_max: number;
  /** A call that takes longer is given up, its thread ended and replaced. */
  call_deadline_ms: number;
}

/** What a thread of the pool gets. */
export interface ComputeCall {
  task: string;
  input: unknown;
}

export class ComputePool {
  readonly #pool: Piscina;
  readonly #deadlineMs: number;
  readonly #ports = new Set<MessagePort>();
  /** Those under way: what gives them up, and their answers. */
  readonly #calls = new Map<AbortController, Promise<unknown>>();
  readonly #forgetExit = beforeExit(() => this.close());
  #isClosed = false;

  constructor(options: ComputePoolOptions) {
    this.#deadlineMs = options.call_deadline_ms;
    this.#pool = new Piscina({
      filename: options.entry.href,
      // Threads start with the first calls; once there they stay, since what they have loaded is costly.
      minThreads: 0,
      maxThreads: options.threads,
      idleTimeout: Number.POSITIVE_INFINITY,
      maxQueue: options.queue_calls_max,
      // One task a thread at a time: a second would only wait behind the first where nothing else can take it.
      concurrentTasksPerWorker: 1,
      atomics: 'disabled',
      workerData: options.options,
    });
    // Waiting callers learn of a thread's end; without a listener piscina's event would end the process.
    this.#pool.on('error', () => {});
  }

  /**
   * Runs a task on a thread of the pool.
   * @throws Error what the task threw, that the queue is full, that the thread died, or that it took too long
   */
  readonly run: ComputeTask = async (task, input) => {
    if (task === CHANNEL_TASK) return this.#openLine();
    return this.#run({ task, input });
  };

  /** The other end is in a thread of the pool, which serves it; this one may go on to another thread. */
  async #openLine(): Promise<MessagePort> {
    const { port1, port2 } = new MessageChannel();
    try {
      await this.#run({ task: CHANNEL_TASK, input: port2 }, [port2]);
    } catch (thrown) {
      port1.close();
      throw thrown;
    }
    return Comlink.transfer(port1, [port1]);
  }

  async #run(call: ComputeCall, transferList: MessagePort[] = []): Promise<unknown> {
    if (this.#isClosed) throw new Error('the pool is closed');
    const givenUp = new AbortController();
    // A call that still waits for a thread to load goes without it; only one that has its thread ends it.
    const timer = setTimeout(() => givenUp.abort(), this.#deadlineMs);
    try {
      const answered: Promise<unknown> = this.#pool.run(call, { signal: givenUp.signal, transferList });
      this.#calls.set(givenUp, answered);
      return await answered;
    } finally {
      clearTimeout(timer);
      this.#calls.delete(givenUp);
    }
  }

  /** A port for another thread: transfer it there and call `openCompute`. Closing it ends the connection. */
  offer(): MessagePort {
    const { port1, port2 } = new MessageChannel();
    Comlink.expose(this.run, nodeEndpoint(port1));
    port1.unref();
    this.#ports.add(port1);
    port1.on('close', () => this.#ports.delete(port1));
    return port2;
  }

  /** Threads that live now. */
  get threads(): number {
    return this.#pool.threads.length;
  }

  /**
   * Ends the threads. What waits for one fails; what has one is given 15 s to end, and so is a thread to load: native
   * code that is interrupted takes the whole process along. May be called again.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const port of this.#ports) port.close();
    // Calls come to threads in the order in which they were made, to one that has loaded.
    const ready = this.#pool.threads.filter((thread) => !isLoading(thread)).length;
    const calls = [...this.#calls];
    for (const [waiting] of calls.slice(ready)) waiting.abort();
    const under = calls.slice(0, ready).map(([, answered]) => answered);
    // What came by a line is not under way any more, or nothing of it that cannot be interrupted, when this is answered.
    const ping: ComputeCall = { task: PING_TASK, input: null };
    for (let thread = 0; thread < ready; thread++) under.push(this.#pool.run(ping));
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, THREAD_LOADING_MS);
    await Promise.race([Promise.allSettled(under), late.promise]);
    clearTimeout(timer);
    await endPool(this.#pool, () => {
      for (const call of this.#calls.keys()) call.abort();
    });
    this.#forgetExit();
  }
}

/** On the other thread: the pool behind a port of `ComputePool.offer`. */
export function openCompute(port: MessagePort): ComputeTask {
  const remote = Comlink.wrap<ComputeTask>(nodeEndpoint(port));
  port.unref();
  return (task, input) => remote(task, input);
}
