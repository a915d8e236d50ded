/**
 * The actor threads from the outside: starts them as tasks of a pool, connects fronts to them, starts a dead one
 * again with back-off, drains and stops them. Main thread.
 */
import { MessageChannel } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { Piscina } from 'piscina';
import type { ThreadControl, ThreadTask } from './actor-thread.ts';
import { describeError } from './error.ts';
import { Front } from './front.ts';
import type { HostStats } from './host.ts';
import { createLinkEnds, type LinkEnd, PortLink } from './port-link.ts';
import type { Placement } from './protocol.ts';
import { loopScheduler } from './scheduler.ts';
import {
  DEFAULT_HOST_RESTART,
  type RestartHistory,
  type RestartPolicy,
  recordFailure,
} from './supervision.ts';

export interface ActorThreadsOptions {
  /** Module whose default export runs a ThreadTask. */
  entry: URL;
  placement: Placement;
  /** Plain data for the threads' composition root. */
  options: unknown;
  restart?: RestartPolicy;
  /** Told when a thread has died, with the reason and the wait before its next start (null: it stays down). */
  onThreadDown?: (index: number, reason: string, restartInMs: number | null) => void;
}

/** Takes link ends to actor threads: a front on the main thread, or one behind a port in a worker. */
export type FrontDoor = (index: number, end: LinkEnd) => void;

/** Drains are repeated until no thread has handled anything new: they may tell each other things. */
const DRAIN_ROUNDS = 16;

interface Thread {
  control: Comlink.Remote<ThreadControl> | null;
  /** Settles when the thread's task has ended, however. */
  ended: Promise<void>;
  history: RestartHistory;
}

export class ActorThreads {
  readonly #options: ActorThreadsOptions;
  readonly #pool: Piscina;
  readonly #threads: Thread[];
  readonly #doors = new Set<FrontDoor>();
  #isStopping = false;
  #restartTimers = new Set<NodeJS.Timeout>();

  constructor(options: ActorThreadsOptions) {
    this.#options = options;
    const { hosts } = options.placement;
    this.#pool = new Piscina({
      filename: options.entry.href,
      minThreads: hosts,
      maxThreads: hosts,
      concurrentTasksPerWorker: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      // With piscina's default an idle thread sleeps in Atomics.wait and its timers and messages stall.
      atomics: 'disabled',
    });
    // A dead thread is reported by its task; without a listener the pool's own event would end the process.
    this.#pool.on('error', () => {});
    this.#threads = Array.from({ length: hosts }, (_, index) => this.#start(index, { failed_at_ms: [] }));
  }

  /**
   * A front on this thread, connected to all actor threads.
   * @returns when every thread answers
   */
  async openFront(): Promise<Front> {
    const front = new Front(this.#options.placement, loopScheduler);
    this.connectFront((index, end) => front.attach(index, new PortLink(end)));
    await front.waitUp();
    return front;
  }

  /** Gives `door` a link end to every actor thread, now and after each restart. */
  connectFront(door: FrontDoor): void {
    this.#doors.add(door);
    this.#threads.forEach((thread, index) => {
      if (thread.control !== null) connect(thread.control, index, door);
    });
  }

  /** Of each thread; null where it is down. */
  stats(): Promise<(HostStats | null)[]> {
    return Promise.all(
      this.#threads.map(async ({ control }) => {
        try {
          return control === null ? null : await control.stats();
        } catch {
          return null;
        }
      }),
    );
  }

  /** Lets a thread die as a fault would make it die. It comes back by itself. */
  async crash(index: number): Promise<void> {
    const thread = this.#threads[index];
    if (thread?.control == null) return;
    // The answer may die with the thread.
    void thread.control.crash().catch(() => {});
    await thread.ended;
  }

  /** Lets everything accepted finish, makes it durable, and ends the threads. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const timer of this.#restartTimers) clearTimeout(timer);
    const living = this.#threads.filter((thread) => thread.control !== null);
    let handled = -1;
    for (let round = 0; round < DRAIN_ROUNDS; round++) {
      const counts = await Promise.all(
        living.map((thread) => whileAlive(thread, (control) => control.drain())),
      );
      const sum = counts.reduce<number>((total, count) => total + (count ?? 0), 0);
      if (sum === handled) break;
      handled = sum;
    }
    await Promise.all(
      living.map(async (thread) => {
        await whileAlive(thread, (control) => control.stop());
        await thread.ended;
      }),
    );
    await this.#pool.destroy();
  }

  #start(index: number, history: RestartHistory): Thread {
    const { port1, port2 } = new MessageChannel();
    const control = Comlink.wrap<ThreadControl>(nodeEndpoint(port1));
    const task: ThreadTask = {
      index,
      placement: this.#options.placement,
      control: port2,
      options: this.#options.options,
    };
    const run = this.#pool.run(task, { transferList: [port2] }) as Promise<void>;
    const thread: Thread = { control, history, ended: Promise.resolve() };
    thread.ended = run.then(
      () => this.#end(index, thread, null),
      (thrown: unknown) => this.#end(index, thread, describeError(thrown)),
    );
    thread.ended = thread.ended.finally(() => port1.close());
    for (const door of this.#doors) connect(control, index, door);
    this.#connectPeers(index, control);
    return thread;
  }

  /** Links a new thread with every other one that is up. */
  #connectPeers(index: number, control: Comlink.Remote<ThreadControl>): void {
    this.#threads?.forEach((other, otherIndex) => {
      if (otherIndex === index || other.control === null) return;
      const [mine, theirs] = createLinkEnds();
      void control.connectPeer(otherIndex, Comlink.transfer(mine, [mine.port])).catch(() => {});
      void other.control.connectPeer(index, Comlink.transfer(theirs, [theirs.port])).catch(() => {});
    });
  }

  #end(index: number, thread: Thread, reason: string | null): void {
    thread.control = null;
    if (this.#isStopping) return;
    const delayMs = recordFailure(
      this.#options.restart ?? DEFAULT_HOST_RESTART,
      thread.history,
      performance.now(),
    );
    this.#options.onThreadDown?.(index, reason ?? 'its task returned', delayMs);
    if (delayMs === null) return;
    const timer = setTimeout(() => {
      this.#restartTimers.delete(timer);
      this.#threads[index] = this.#start(index, thread.history);
    }, delayMs);
    this.#restartTimers.add(timer);
  }
}

/** A thread that is already gone when it gets the end drops it, and the front hears of it as of a death. */
function connect(control: Comlink.Remote<ThreadControl>, index: number, door: FrontDoor): void {
  const [mine, theirs] = createLinkEnds();
  control.connectFront(Comlink.transfer(theirs, [theirs.port])).then(
    () => door(index, mine),
    () => mine.port.close(),
  );
}

/** Calls over comlink never settle once the other side is gone. */
async function whileAlive<T>(
  thread: Thread,
  call: (control: Comlink.Remote<ThreadControl>) => Promise<T>,
): Promise<T | null> {
  if (thread.control === null) return null;
  return Promise.race([call(thread.control).catch(() => null), thread.ended.then(() => null)]);
}
