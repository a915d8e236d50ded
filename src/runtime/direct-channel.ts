/**
 * A direct channel to one thread of the stateless pool, for short calls, for whose results a request waits. Calls do
 * not pass through the main thread, so each call wakes one thread instead of three. If the pool thread ends, running
 * calls fail, and the next call opens another channel. Any thread calls; the other end is in a pool thread.
 *
 * The pool does not see these calls. So after a call that takes too long, the channel asks the pool to ping its threads.
 * The ping of a thread that hangs exceeds the deadline of the pool's calls, and the pool terminates that thread.
 */
import type { MessagePort } from 'node:worker_threads';
import type { ComputeTask } from './actor-thread.ts';
import { describeError } from './error.ts';

/** Maximum number of calls that wait for a compute thread, and maximum duration of a call. */
export const COMPUTE_QUEUE_CALLS = 256;
export const COMPUTE_DEADLINE_MS = 60_000;

/** The task of `ComputePool.run` that opens a channel; its result is a port, transferred. */
export const CHANNEL_TASK = 'channel';
/** A task that does nothing, to detect a thread that hangs. */
export const PING_TASK = 'ping';

interface ChannelCall {
  id: number;
  task: string;
  input: unknown;
}

type ChannelAnswer = { id: number; value: unknown } | { id: number; error: string };

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

interface DirectChannelOptions {
  /** A call that takes longer fails. */
  call_deadline_ms: number;
  /** Maximum number of running calls on the channel; further calls are refused. */
  calls_max: number;
}

export class DirectChannel {
  readonly #pool: ComputeTask;
  readonly #options: DirectChannelOptions;
  readonly #waiting = new Map<number, Waiting>();
  #port: Promise<MessagePort> | null = null;
  #nextId = 0;
  #isClosed = false;

  /**
   * @param pool access to the pool itself
   */
  constructor(pool: ComputeTask, options: DirectChannelOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /**
   * Runs a task on the channel's thread.
   * @throws an Error with the text of the task's error; an Error if the thread died, the call took too long,
   * or too many calls are running
   */
  readonly run: ComputeTask = async (task, input) => {
    const port = await this.#open();
    if (this.#isClosed) throw new Error('the channel is closed');
    if (this.#waiting.size >= this.#options.calls_max) throw new Error('too many calls on the channel');
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#giveUp(id), this.#options.call_deadline_ms);
      if (this.#waiting.size === 0) port.ref();
      this.#waiting.set(id, { resolve, reject, timer });
      port.postMessage({ id, task, input } satisfies ChannelCall);
    });
  };

  /** Fails the running calls. Can be called again. */
  close(): void {
    this.#isClosed = true;
    void this.#port?.then(
      (port) => port.close(),
      () => {},
    );
    this.#failAll('the channel is closed');
  }

  #open(): Promise<MessagePort> {
    if (this.#isClosed) return Promise.reject(new Error('the channel is closed'));
    if (this.#port === null) {
      // A pool thread that is about to end closes the channel. In that case, another channel is opened.
      const opening = this.#pool(CHANNEL_TASK, null).catch(() =>
        this.#pool(CHANNEL_TASK, null),
      ) as Promise<MessagePort>;
      const forget = () => {
        if (this.#port === opening) this.#port = null;
      };
      opening.then((port) => {
        port.on('message', (answer: ChannelAnswer) => this.#take(port, answer));
        port.on('close', () => {
          forget();
          this.#failAll('the pool thread has ended');
        });
        port.unref();
      }, forget);
      this.#port = opening;
    }
    return this.#port;
  }

  #take(port: MessagePort, answer: ChannelAnswer): void {
    const call = this.#waiting.get(answer.id);
    if (call === undefined) return;
    this.#settle(answer.id, call);
    if (this.#waiting.size === 0) port.unref();
    if ('error' in answer) call.reject(new Error(answer.error));
    else call.resolve(answer.value);
  }

  #giveUp(id: number): void {
    const call = this.#waiting.get(id);
    if (call === undefined) return;
    this.#settle(id, call);
    call.reject(new Error('the call took too long'));
    this.#pool(PING_TASK, null).catch(() => {});
  }

  #failAll(reason: string): void {
    for (const [id, call] of [...this.#waiting]) {
      this.#settle(id, call);
      call.reject(new Error(reason));
    }
  }

  #settle(id: number, { timer }: Waiting): void {
    clearTimeout(timer);
    this.#waiting.delete(id);
  }
}

/** Answers the calls that arrive at the port, concurrently. For pool threads. */
export function serveChannel(port: MessagePort, run: ComputeTask): void {
  port.on('message', ({ id, task, input }: ChannelCall) => {
    run(task, input).then(
      (value) => port.postMessage({ id, value } satisfies ChannelAnswer),
      (thrown: unknown) => port.postMessage({ id, error: describeError(thrown) } satisfies ChannelAnswer),
    );
  });
}
