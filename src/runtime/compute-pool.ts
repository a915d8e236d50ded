/**
 * Manages the stateless pool: threads that run tasks by name, for work that would block a thread on which callers wait.
 * If a thread dies, its calls fail at once and the thread is replaced. The entry module defines the tasks. Piscina queues the
 * calls and replaces threads; a thread with one permanent task is an OwnThread (std/own-thread.ts) instead. Main
 * thread; other threads use it through a port (`offer`, `openCompute`).
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
  /** Plain data for the threads' composition root, in piscina's `workerData`. */
  options: unknown;
  /** Maximum number of calls that wait for a thread; further calls are refused. */
  queue_calls_max: number;
  /**
   * A call that takes longer, including its wait for a thread, fails. If a thread was running the call, the thread is
   * terminated and replaced.
   */
  call_deadline_ms: number;
}

/** The input of a pool thread. */
export interface ComputeCall {
  task: string;
  input: unknown;
}

export class ComputePool {
  readonly #pool: Piscina;
  readonly #deadlineMs: number;
  readonly #ports = new Set<MessagePort>();
  /** Calls that run or wait: their abort controllers, and their answers. */
  readonly #calls = new Map<AbortController, Promise<unknown>>();
  readonly #forgetExit = beforeExit(() => this.close());
  #isClosed = false;

  constructor(options: ComputePoolOptions) {
    this.#deadlineMs = options.call_deadline_ms;
    this.#pool = new Piscina({
      filename: options.entry.href,
      // Threads start with the first calls and stay, because loading is expensive.
      minThreads: 0,
      maxThreads: options.threads,
      idleTimeout: Number.POSITIVE_INFINITY,
      maxQueue: options.queue_calls_max,
      // One task per thread at a time. A second task would wait for the first, even if another thread became free.
      concurrentTasksPerWorker: 1,
      atomics: 'disabled',
      workerData: options.options,
    });
    // Callers get the error of a thread that died. Without this listener, piscina's `error` event would crash the
    // process.
    this.#pool.on('error', () => {});
  }

  /**
   * Runs a task on a pool thread.
   * @throws the task's error; an Error if the queue is full, the thread died, or the call took too long
   */
  readonly run: ComputeTask = async (task, input) => {
    if (task === CHANNEL_TASK) return this.#openLine();
    if (task === PING_TASK) return this.#pingAll();
    return this.#run({ task, input });
  };

  /**
   * Pings every thread, because the pool does not know which thread serves a direct channel. The pool gives a call to a
   * thread without a running call, so each idle thread gets one.
   */
  async #pingAll(): Promise<null> {
    const pings = this.#pool.threads.map(() => this.#run({ task: PING_TASK, input: null }));
    await Promise.all(pings);
    return null;
  }

  /**
   * Opens a channel whose other end a pool thread serves. @returns this end, which may be transferred to another thread
   */
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
    // The abort of a running call terminates its thread. A call that waits for a loading thread only fails.
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

  /**
   * Makes a port for another thread: transfer the port to that thread, and call `openCompute` there. Closing the port
   * ends the connection.
   */
  offer(): MessagePort {
    const { port1, port2 } = new MessageChannel();
    Comlink.expose(this.run, nodeEndpoint(port1));
    port1.unref();
    this.#ports.add(port1);
    port1.on('close', () => this.#ports.delete(port1));
    return port2;
  }

  /** Number of living threads. */
  get threads(): number {
    return this.#pool.threads.length;
  }

  /**
   * Ends the threads. Waiting calls fail. Running calls and loading threads get 15 s to finish, because interrupting
   * native code crashes the whole process. Can be called again.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const port of this.#ports) port.close();
    // Threads get calls in order, once they have loaded.
    const ready = this.#pool.threads.filter((thread) => !isLoading(thread)).length;
    const calls = [...this.#calls];
    for (const [waiting] of calls.slice(ready)) waiting.abort();
    const under = calls.slice(0, ready).map(([, answered]) => answered);
    // When a thread answers this ping, its calls over direct channels have ended, or have passed the parts that must
    // not be interrupted.
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

/** Opens the pool on another thread. @param port from `ComputePool.offer` */
export function openCompute(port: MessagePort): ComputeTask {
  const remote = Comlink.wrap<ComputeTask>(nodeEndpoint(port));
  port.unref();
  return (task, input) => remote(task, input);
}
