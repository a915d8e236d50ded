/**
 * Manages the actor threads: starts them, links clients and threads with each other, drains and stops them.
 * After a delay, restarts a thread that died or hangs, unless the thread has failed too often. Main thread.
 *
 * A thread is restarted only after its worker has exited. Until then its native code may still be writing,
 * because LMDB commits on other threads.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { createDeferred, type Deferred } from '../std/deferred.ts';
import { waitForLoading, watchLoading } from '../std/loading-threads.ts';
import { OwnThread } from '../std/own-thread.ts';
import { ActorClient } from './actor-client.ts';
import type { ComputeTask, ThreadControl, ThreadTask } from './actor-thread.ts';
import { describeError } from './error.ts';
import type { HostStats } from './host-stats.ts';
import { createLinkEnds, type LinkEnd, MessagePortLink } from './message-port-link.ts';
import type { Placement } from './protocol.ts';
import type { ClientOffer } from './remote-actor-client.ts';
import { loopScheduler } from './scheduler.ts';
import {
  DEFAULT_HOST_RESTART,
  type RestartHistory,
  type RestartPolicy,
  recordFailure,
} from './supervision.ts';

/** When a thread that does not answer pings counts as hung. A hung thread is terminated. */
interface WatchPolicy {
  ping_every_ms: number;
  hung_after_ms: number;
}

const DEFAULT_WATCH: WatchPolicy = { ping_every_ms: 5_000, hung_after_ms: 30_000 };

export interface ActorThreadsOptions {
  /** Module that runs a {@link ThreadTask} on its thread. */
  entry: URL;
  placement: Placement;
  /** Plain data for the threads' composition root. */
  options: unknown;
  restart?: RestartPolicy;
  watch?: WatchPolicy;
  /** Maximum time that a thread may load before it is terminated; default 15 s. */
  loading_ms?: number;
  /** Runs `compute` effects: the `run` of the stateless pool. Without it they fail. */
  compute?: ComputeTask;
  /** Called when a thread has died, with the reason and the delay before its next start (null: it stays down). */
  onThreadDown?: (index: number, reason: string, restartInMs: number | null) => void;
}

/**
 * Receives the ends of links to hosts, for a client on the main thread or for one behind a port in a worker.
 */
type ClientDoor = (index: number, end: LinkEnd) => void;

/** A host on a server thread, on this thread or behind a port. */
interface OuterHost {
  connectClient(end: LinkEnd): void;
  connectPeer(index: number, end: LinkEnd): void;
  /** Returns the host's counters; null while the host is down. */
  stats(): HostStats | null | Promise<HostStats | null>;
}

/**
 * Maximum number of rounds in which all threads are drained. Rounds are repeated until no thread has handled a new
 * message, because threads may send each other messages.
 */
const DRAIN_ROUNDS = 16;
/**
 * Maximum time from the start of the threads until the first client is connected to all of them. It is long, because
 * loading modules takes a minute on an overloaded machine.
 */
const OPEN_DEADLINE_MS = 120_000;

/** One run of an actor thread, from its start to its end. */
interface Life {
  control: Comlink.Remote<ThreadControl>;
  thread: OwnThread;
  /** Resolves when the thread has exited. */
  exited: Promise<void>;
  /** Whether the thread has started and answers. */
  isUp: boolean;
}

interface Thread {
  index: number;
  /** null: the thread is down. */
  life: Life | null;
  history: RestartHistory;
  restarts: number;
}

export class ActorThreads {
  readonly #options: ActorThreadsOptions;
  readonly #threads: Thread[];
  /** By door: number of the host on the client's own thread, which needs no link; −1: that thread has no host. */
  readonly #doors = new Map<ClientDoor, number>();
  readonly #outer = new Map<number, OuterHost>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #watchTimer: NodeJS.Timeout;
  #stopped: Deferred<void> | null = null;
  /** Callers that wait in `openClient`. */
  readonly #opening = new Set<Deferred<never>>();

  constructor(options: ActorThreadsOptions) {
    this.#options = options;
    this.#threads = Array.from({ length: options.placement.hosts }, (_, index) => ({
      index,
      life: null,
      history: { failed_at_ms: [] },
      restarts: 0,
    }));
    for (const thread of this.#threads) this.#start(thread);
    const watch = options.watch ?? DEFAULT_WATCH;
    this.#watchTimer = setInterval(() => this.#watch(watch), watch.ping_every_ms).unref();
  }

  /**
   * Links a host on a server thread with all clients and all other hosts, including those that are added later. Call it
   * again after a restart of the host.
   */
  addHost(index: number, host: OuterHost): void {
    this.#outer.set(index, host);
    for (const [door, own] of this.#doors) if (own !== index) connectOuter(host, index, door);
    for (const { life, index: thread } of this.#threads) {
      if (life !== null) connectPeers(life, thread, host, index);
    }
    for (const [at, other] of this.#outer) {
      if (at === index) continue;
      const [near, far] = createLinkEnds();
      host.connectPeer(at, near);
      other.connectPeer(index, far);
    }
  }

  /**
   * Makes a client on this thread. Resolves when it is connected to every actor thread.
   * @param own number of the host on the client's own thread, which is attached without a port; −1: no host is there
   * @throws Error with a one-line message: why a thread ended before it was up, that a thread does not answer within
   *   120 s, or that all threads are being stopped
   */
  async openClient(own = -1): Promise<ActorClient> {
    const client = new ActorClient(this.#options.placement, loopScheduler, undefined, own);
    const close = this.connectClient((index, end) => client.attach(index, new MessagePortLink(end)), own);
    const failed = createDeferred<never>();
    this.#opening.add(failed);
    const timer = setTimeout(() => failed.reject(startError('they do not answer')), OPEN_DEADLINE_MS);
    try {
      const up = Promise.all(this.#threads.map(({ index }) => client.waitUp(index)));
      await Promise.race([up, failed.promise]);
      return client;
    } catch (thrown) {
      close();
      client.close();
      throw thrown;
    } finally {
      this.#opening.delete(failed);
      clearTimeout(timer);
    }
  }

  /**
   * Makes a port with which a worker opens its client: transfer the port to the worker, and call `openRemoteClient`
   * there. When the port closes, the client gets no further links.
   */
  offerClient(): MessagePort {
    const { port1, port2 } = new MessageChannel();
    const close = this.connectClient((index, end) => {
      const offer: ClientOffer = { index, end };
      try {
        port1.postMessage(offer, [end.port]);
      } catch {
        // The host's thread has died in the meantime. After its restart there is a new link.
        end.port.close();
      }
    });
    port1.on('close', close);
    port1.unref();
    return port2;
  }

  /**
   * Gives `door` a link end to every host, now and after each restart.
   * @param own number of the host on the client's own thread, which needs no link
   * @returns a function after which `door` gets no further link ends; open links stay open
   */
  connectClient(door: ClientDoor, own = -1): () => void {
    this.#doors.set(door, own);
    for (const { life, index } of this.#threads) if (life !== null) connect(life, index, door);
    for (const [index, host] of this.#outer) if (index !== own) connectOuter(host, index, door);
    return () => void this.#doors.delete(door);
  }

  /** Reads the stats of each host; null for a host that is down. */
  stats(): Promise<(HostStats | null)[]> {
    return Promise.all([
      ...this.#threads.map(({ life }) =>
        life === null ? null : whileAlive(life, (control) => control.stats()),
      ),
      ...[...this.#outer.values()].map((host) => host.stats()),
    ]);
  }

  /** The number of restarts of each thread. */
  get restarts(): number[] {
    return this.#threads.map((thread) => thread.restarts);
  }

  /** Makes a thread crash. Resolves when it has exited. The thread is then treated like one that died. */
  async crash(index: number): Promise<void> {
    const life = this.#threads[index]?.life;
    if (life == null) return;
    // The thread may die before it answers.
    void life.control.crash().catch(() => {});
    await life.exited;
  }

  /**
   * Terminates a thread, even if it hangs. A thread that is loading may first finish loading. Resolves when it has
   * exited. The thread is then treated like one that died.
   */
  async terminate(index: number): Promise<void> {
    const life = this.#threads[index]?.life;
    if (life == null) return;
    void life.thread.end(this.#options.loading_ms);
    await life.exited;
  }

  /** Finishes everything accepted, makes it durable, and ends the threads. A second call waits for the first. */
  stop(): Promise<void> {
    if (this.#stopped === null) {
      this.#stopped = createDeferred();
      this.#stopAll().then(this.#stopped.resolve, this.#stopped.reject);
    }
    return this.#stopped.promise;
  }

  async #stopAll(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    clearInterval(this.#watchTimer);
    this.#failOpening('they are being stopped');
    const all = this.#threads.flatMap(({ life }) => (life === null ? [] : [life]));
    const lives = all.filter((life) => life.isUp);
    const others = all.filter((life) => !life.isUp).map((life) => this.#stopUnanswered(life));
    let handled = -1;
    for (let round = 0; round < DRAIN_ROUNDS; round++) {
      const counts = await Promise.all(lives.map((life) => whileAlive(life, (control) => control.drain())));
      const sum = counts.reduce<number>((total, count) => total + (count ?? 0), 0);
      if (sum === handled) break;
      handled = sum;
    }
    await Promise.all(
      lives.map(async (life) => {
        await whileAlive(life, (control) => control.stop());
        await life.exited;
      }),
    );
    await Promise.all(others);
  }

  /**
   * Ends a thread that has not answered yet and may never receive the stop. The thread may first finish loading:
   * terminating it while it loads native code would crash the whole process.
   */
  async #stopUnanswered(life: Life): Promise<void> {
    await waitForLoading([life.thread.worker], this.#options.loading_ms);
    if (life.isUp) {
      await whileAlive(life, (control) => control.drain());
      await whileAlive(life, (control) => control.stop());
    } else {
      void life.thread.worker.terminate();
    }
    await life.exited;
  }

  #failOpening(reason: string): void {
    for (const waiting of this.#opening) waiting.reject(startError(reason));
  }

  #start(thread: Thread): void {
    const { entry, placement, options, compute } = this.#options;
    const { port1, port2 } = new MessageChannel();
    const client = this.offerClient();
    const transferList = [port2, client];
    const task: ThreadTask = {
      index: thread.index,
      placement,
      control: port2,
      client,
      compute: null,
      options,
    };
    if (compute !== undefined) {
      const channel = new MessageChannel();
      Comlink.expose(compute, nodeEndpoint(channel.port1));
      channel.port1.unref();
      task.compute = channel.port2;
      transferList.push(channel.port2);
    }
    const own = new OwnThread(entry, task, { transfer: transferList });
    const control = Comlink.wrap<ThreadControl>(nodeEndpoint(port1));
    const exited = own.ended
      .then(() => 'its task returned', describeError)
      .then((reason) => {
        port1.close();
        thread.life = null;
        this.#end(thread, reason, life.isUp);
      });
    const life: Life = { control, thread: own, exited, isUp: false };
    thread.life = life;
    // This ping is the first message to the thread, so `isUp` is set before the first client is linked.
    const up = whileAlive(life, (started) => started.ping()).then((index) => {
      life.isUp = index !== null;
    });
    // The thread opens its databases before it answers.
    watchLoading(own.worker, up);
    for (const door of this.#doors.keys()) connect(life, thread.index, door);
    for (const [index, host] of this.#outer) connectPeers(life, thread.index, host, index);
    for (const other of this.#threads) {
      if (other === thread || other.life === null) continue;
      const [near, far] = createLinkEnds();
      void control.connectPeer(other.index, Comlink.transfer(near, [near.port])).catch(() => {});
      void other.life.control.connectPeer(thread.index, Comlink.transfer(far, [far.port])).catch(() => {});
    }
  }

  #end(thread: Thread, reason: string, wasUp: boolean): void {
    if (this.#stopped !== null) return;
    const policy = this.#options.restart ?? DEFAULT_HOST_RESTART;
    const delayMs = recordFailure(policy, thread.history, loopScheduler.monotonicMs());
    // If callers wait in `openClient`, they get the reason as an error, and `onThreadDown` is not called.
    if (!wasUp && this.#opening.size > 0) this.#failOpening(reason);
    else this.#options.onThreadDown?.(thread.index, reason, delayMs);
    if (delayMs === null) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      thread.restarts++;
      this.#start(thread);
    }, delayMs);
    this.#timers.add(timer);
  }

  /** Pings every thread. A thread that does not answer in time counts as hung. */
  #watch({ hung_after_ms }: WatchPolicy): void {
    for (const { life } of this.#threads) {
      if (life === null) continue;
      // A thread that is loading gets more time, because it is probably slow, not hung.
      const patienceMs = life.isUp ? hung_after_ms : Math.max(hung_after_ms, OPEN_DEADLINE_MS);
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        void life.thread.worker.terminate();
      }, patienceMs).unref();
      this.#timers.add(timer);
      void whileAlive(life, (control) => control.ping()).then(() => {
        clearTimeout(timer);
        this.#timers.delete(timer);
      });
    }
  }
}

/** Makes an error whose `code` says that it is to be shown in one line, without a stack. */
function startError(reason: string): Error {
  const words = `the actor threads cannot start: ${reason.split('\n', 1)[0]}`;
  return Object.assign(new Error(words), { code: 'ETHREADS' });
}

/**
 * Gives `door` a link to the thread. If the thread dies first, `door` gets nothing; after the restart there is a
 * new link.
 */
function connect(life: Life, index: number, door: ClientDoor): void {
  const [near, far] = createLinkEnds();
  const connected = whileAlive(life, async (control) => {
    await control.connectClient(Comlink.transfer(far, [far.port]));
    return true;
  });
  void connected.then((isConnected) => {
    if (isConnected === true) door(index, near);
    else near.port.close();
  });
}

function connectOuter(host: OuterHost, index: number, door: ClientDoor): void {
  const [near, far] = createLinkEnds();
  host.connectClient(far);
  door(index, near);
}

/** Links an actor thread with a host on a server thread. */
function connectPeers(life: Life, thread: number, host: OuterHost, index: number): void {
  const [near, far] = createLinkEnds();
  host.connectPeer(thread, near);
  void life.control.connectPeer(index, Comlink.transfer(far, [far.port])).catch(() => {});
}

/**
 * Waits for a call to the thread; null if the thread ends first or the call fails. Without this function, a call over
 * comlink would never settle if the thread has ended.
 */
async function whileAlive<T>(
  life: Life,
  call: (control: Comlink.Remote<ThreadControl>) => Promise<T>,
): Promise<T | null> {
  return Promise.race([call(life.control).catch(() => null), life.exited.then(() => null)]);
}
