/**
 * A host of actors on a server thread. Requests reach these actors without crossing threads. The host shares the thread
 * with sockets, so it is for actors with frequent messages and little work for each. Server threads.
 *
 * The host handles a fault of an actor like any other host. A fault of the host itself would end an actor thread. On a
 * server thread, it ends only this host: its links are closed, pending requests fail at once, and after the same
 * back-off the host restarts from the stored state.
 */
import { createDeferred, type Deferred } from '../std/deferred.ts';
import type { ActorClient } from './actor-client.ts';
import { callAdapter, type EffectAdapter } from './effect-adapter.ts';
import { describeError } from './error.ts';
import { ActorHost, type HostParts } from './host.ts';
import type { HostStats } from './host-stats.ts';
import type { JournalStore } from './journal.ts';
import type { Link } from './link.ts';
import { createLocalLink } from './local-link.ts';
import { type LinkEnd, MessagePortLink } from './message-port-link.ts';
import type { Placement } from './protocol.ts';
import { loopScheduler, type Scheduler } from './scheduler.ts';
import {
  DEFAULT_HOST_RESTART,
  type RestartHistory,
  type RestartPolicy,
  recordFailure,
} from './supervision.ts';

/** The parts of one run of the host, from its start to its end. */
export interface ServerHostParts extends Pick<HostParts, 'kinds' | 'report'> {
  journal: JournalStore;
  adapters: Readonly<Record<string, EffectAdapter>>;
  /** Called once after the host has ended: releases all parts. */
  dispose(): Promise<void>;
}

export interface ServerHostOptions {
  /** The host's number in the placement. */
  index: number;
  placement: Placement;
  /** This thread's client, which reaches the host without a message port. */
  client: ActorClient;
  /** Creates the parts for each start. */
  open(): ServerHostParts;
  restart?: RestartPolicy;
  /** Called after a fault with the wait before the next start (null: the host stays down). */
  onDown?: (reason: string, restartInMs: number | null) => void;
  /** Called after a restart; other threads must create new links to the host. */
  onUp?: () => void;
}

interface Life {
  host: ActorHost;
  parts: ServerHostParts;
  ended: Deferred<void>;
}

export class ServerHost {
  readonly #options: ServerHostOptions;
  readonly #history: RestartHistory = { failed_at_ms: [] };
  /** null while the host is down. */
  #life: Life | null = null;
  #letGo: Promise<void> = Promise.resolve();
  #isStopped = false;

  /** Starts the host. @throws the error of `open` */
  constructor(options: ServerHostOptions) {
    this.#options = options;
    this.#start();
  }

  /** Adds a link to another thread's client; refused while the host is down. */
  connectClient(end: LinkEnd): void {
    this.#adopt(end, (host, link) => host.attachClient(link));
  }

  /** Adds a link to another host; refused while the host is down. */
  connectPeer(index: number, end: LinkEnd): void {
    this.#adopt(end, (host, link) => host.attachPeer(index, link));
  }

  /** Returns the host's counters; null while the host is down. */
  stats(): HostStats | null {
    return this.#life?.host.stats() ?? null;
  }

  /**
   * Handles all accepted messages, makes their events durable, and ends the host. A host that fails meanwhile is not
   * started again. Resolves when the parts are released.
   */
  async stop(): Promise<void> {
    this.#isStopped = true;
    const life = this.#life;
    if (life !== null) {
      await Promise.race([life.host.drain(), life.ended.promise]);
      if (this.#life === life) this.#end(life);
    }
    await this.#letGo;
  }

  #start(): void {
    const { index, placement, client, open } = this.#options;
    const parts = open();
    const host = new ActorHost({
      index,
      placement,
      kinds: parts.kinds,
      scheduler: this.#guardScheduler(),
      journal: this.#guardJournal(parts.journal),
      performIo: (adapter, operation, input, done) =>
        callAdapter(parts.adapters[adapter], adapter, operation, input, this.#guard(done)),
      performCompute: (_task, _input, done) =>
        setImmediate(this.#guard(done), new TypeError('no compute pool on a server thread'), undefined),
      report: parts.report,
    });
    this.#life = { host, parts, ended: createDeferred() };
    const [near, far] = createLocalLink();
    this.#attach(far, (link) => host.attachClient(link, true));
    client.attach(index, near);
  }

  #adopt(end: LinkEnd, attach: (host: ActorHost, link: Link) => void): void {
    const life = this.#life;
    if (life === null) return end.port.close();
    this.#attach(new MessagePortLink(end), (link) => attach(life.host, link));
  }

  #attach(link: Link, attach: (link: Link) => void): void {
    attach(link);
    link.onFrame = this.#guard(link.onFrame);
  }

  /** Ends the host after a fault, as the end of an actor thread would, but the thread continues. */
  #fail(thrown: unknown): void {
    if (this.#life === null) return;
    this.#end(this.#life);
    this.#startLater(thrown);
  }

  #startLater(thrown: unknown): void {
    if (this.#isStopped) return;
    const { restart = DEFAULT_HOST_RESTART, onDown, onUp } = this.#options;
    const delayMs = recordFailure(restart, this.#history, loopScheduler.monotonicMs());
    onDown?.(thrown instanceof Error ? (thrown.stack ?? thrown.message) : describeError(thrown), delayMs);
    if (delayMs === null) return;
    loopScheduler.later(delayMs, async () => {
      await this.#letGo;
      if (this.#isStopped) return;
      try {
        this.#start();
      } catch (failure) {
        this.#startLater(failure);
        return;
      }
      onUp?.();
    });
  }

  #end({ host, parts, ended }: Life): void {
    this.#life = null;
    host.close();
    ended.resolve();
    this.#letGo = parts.dispose().catch(() => {});
  }

  #guard<Args extends unknown[]>(task: (...args: Args) => void): (...args: Args) => void {
    return (...args) => {
      try {
        task(...args);
      } catch (thrown) {
        this.#fail(thrown);
      }
    };
  }

  #guardScheduler(): Scheduler {
    return {
      ...loopScheduler,
      soon: (task) => loopScheduler.soon(this.#guard(task)),
      later: (delayMs, task) => loopScheduler.later(delayMs, this.#guard(task)),
    };
  }

  #guardJournal(journal: JournalStore): JournalStore {
    const guard = <Args extends unknown[]>(task: (...args: Args) => void) => this.#guard(task);
    return {
      set onLost(listener: JournalStore['onLost']) {
        journal.onLost = listener && guard(listener);
      },
      load: (kind, key) => journal.load(kind, key),
      commit: (writes, done) => journal.commit(writes, guard(done)),
      settle: () => journal.settle?.(),
      letGo: (kind, key) => journal.letGo?.(kind, key),
      close: () => journal.close(),
    };
  }
}
