/**
 * The stateless pool from the outside: threads that run tasks by name, for work that would hold up a thread on which
 * others wait. A thread that dies fails its own tasks at once and is replaced. Knows no task; what they are is in the
 * entry module. Main thread; other threads reach it through a port (`offer`, `openCompute`).
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { Piscina } from 'piscina';
import { endPool } from '../std/loading-threads.ts';
import type { ComputeTask } from './actor-thread.ts';
import { LINE_TASK } from './compute-line.ts';

export interface ComputePoolOptions {
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
  /** Of the calls under way. */
  readonly #calls = new Set<AbortController>();
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
    // A thread's end is told to whoever waits for it; without a listener piscina's event would end the process.
    this.#pool.on('error', () => {});
  }

  /**
   * Runs a task on a thread of the pool.
   * @throws Error what the task threw, that the queue is full, that the thread died, or that it took too long
   */
  readonly run: ComputeTask = async (task, input) => {
    if (task === LINE_TASK) return this.#openLine();
    return this.#run({ task, input });
  };

  /** The other end is in a thread of the pool, which serves it; this one may go on to another thread. */
  async #openLine(): Promise<MessagePort> {
    const { port1, port2 } = new MessageChannel();
    try {
      await this.#run({ task: LINE_TASK, input: port2 }, [port2]);
    } catch (thrown) {
      port1.close();
      throw thrown;
    }
    return Comlink.transfer(port1, [port1]);
  }

  async #run(call: ComputeCall, transferList: MessagePort[] = []): Promise<unknown> {
    if (this.#isClosed) throw new Error('the pool is closed');
    const givenUp = new AbortController();
    this.#calls.add(givenUp);
    // A call that still waits for a thread to load goes without it; only one that has its thread ends it.
    const timer = setTimeout(() => givenUp.abort(), this.#deadlineMs);
    try {
      return (await this.#pool.run(call, { signal: givenUp.signal, transferList })) as unknown;
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

  /** Ends the threads, those that are loading after 15 s at most; what is under way fails. May be called again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const port of this.#ports) port.close();
    await endPool(this.#pool, () => {
      for (const call of this.#calls) call.abort();
    });
  }
}

/** On the other thread: the pool behind a port of `ComputePool.offer`. */
export function openCompute(port: MessagePort): ComputeTask {
  const remote = Comlink.wrap<ComputeTask>(nodeEndpoint(port));
  port.unref();
  return (task, input) => remote(task, input);
}
