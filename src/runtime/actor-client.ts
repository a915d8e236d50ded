/**
 * The client of actors: one ActorClient per thread sends messages to actors on all hosts, and matches answers to asks.
 * It uses only links, no threads, so the simulator runs the same code. Server threads (main or worker); actor threads
 * load it too.
 */
import { createDeferred, type Deferred } from '../std/deferred.ts';
import { SlotTable } from '../std/slot-table.ts';
import { type DeadLetterReason, DeadLetters } from './dead-letters.ts';
import { type ErrorData, RuntimeError, type RuntimeErrorCode, runtimeError } from './error.ts';
import type { Frame, Link, LinkStats } from './link.ts';
import { Placer } from './placer.ts';
import {
  type ActorAddress,
  countHosts,
  isValidKey,
  type Placement,
  placeAddress,
  type Teller,
} from './protocol.ts';
import type { Scheduler } from './scheduler.ts';

/** Options of one ask. */
export interface AskOptions {
  /** Maximum time until the answer, in milliseconds; default DEFAULT_ASK_DEADLINE_MS. */
  deadline_ms?: number;
  /** Bytes that are sent with the payload; default: none. */
  bodies?: readonly Uint8Array[];
}

/** Bounds of a client. */
interface ActorClientLimits {
  /** Maximum number of unanswered asks; further ones are refused with `too_many_asks`. */
  max_pending_asks: number;
}

export const DEFAULT_ASK_DEADLINE_MS = 5_000;
const DEFAULT_ACTOR_CLIENT_LIMITS: ActorClientLimits = { max_pending_asks: 262_144 };

/** The state of one client. */
interface ActorClientStats {
  /** Number of unanswered asks. */
  asks_pending: number;
  /** By number of the host; null while the host is down. */
  links: (LinkStats | null)[];
}

/** The interface that clients of actors use. */
export interface Asker extends Teller {
  /**
   * Sends a message and waits for the answer.
   * @throws RuntimeError (as rejection): the runtime's codes, or the actor's own refusal; msgpack's error for a payload
   *   that cannot be encoded
   */
  ask(to: ActorAddress, name: string, payload: unknown, options?: AskOptions): Promise<unknown>;
}

type Settle = (error: ErrorData | null, value: unknown) => void;

interface PendingAsk {
  to: ActorAddress;
  name: string;
  host: number;
  deadline_ms: number;
  settle: Settle;
}

const NO_BODIES: readonly Uint8Array[] = Object.freeze([]);
/** Minimum interval between checks of deadlines. */
const SWEEP_GRAIN_MS = 5;

/** A thread's access to all actors. */
export class ActorClient implements Asker {
  readonly deadLetters = new DeadLetters();
  readonly #placement: Placement;
  readonly #placer: Placer;
  readonly #scheduler: Scheduler;
  readonly #limits: ActorClientLimits;
  readonly #links: (Link | null)[];
  readonly #pending = new SlotTable<PendingAsk>();
  readonly #upListeners = new Set<(host: number) => void>();
  readonly #downListeners = new Set<(host: number) => void>();
  readonly #subscriptions = new Map<string, Set<(payload: unknown) => void>>();
  readonly #fences = new Map<number, { host: number; done: () => void }>();
  readonly #upWaits: { host: number | null; deferred: Deferred<void> }[] = [];
  #nextFence = 1;
  #sweepAtMs = Number.POSITIVE_INFINITY;
  #cancelSweep: (() => void) | null = null;
  #closed = false;

  /** @param own number of the host on this client's thread; −1: the thread has no host */
  constructor(
    placement: Placement,
    scheduler: Scheduler,
    limits: ActorClientLimits = DEFAULT_ACTOR_CLIENT_LIMITS,
    own = -1,
  ) {
    this.#placement = placement;
    this.#placer = new Placer(placement, own);
    this.#scheduler = scheduler;
    this.#limits = limits;
    this.#links = new Array(countHosts(placement)).fill(null);
  }

  /** Adds the link to a host; an earlier link to the same host is closed first. A closed client closes the link. */
  attach(host: number, link: Link): void {
    if (this.#closed) return link.close();
    this.#links[host]?.close();
    this.#links[host] = link;
    link.onFrame = (frame) => this.#receive(frame);
    link.onClose = () => this.#lose(host, link);
    for (const topic of this.#subscriptions.keys()) link.send({ type: 'subscribe', topic });
    for (const listener of [...this.#upListeners]) listener(host);
    for (const wait of this.#upWaits.splice(0)) {
      if (wait.host === null ? this.#allUp() : this.isUp(wait.host)) wait.deferred.resolve();
      else this.#upWaits.push(wait);
    }
  }

  /** Whether the client has a link to that host. */
  isUp(host: number): boolean {
    return this.#links[host] != null;
  }

  /**
   * Calls the listener when a host becomes reachable (again).
   * @returns a function that removes the listener
   */
  onHostUp(listener: (host: number) => void): () => void {
    return listen(this.#upListeners, listener);
  }

  /**
   * Calls the listener when a host has died or stopped; the asks that it has not answered have already failed.
   * @returns a function that removes the listener
   */
  onHostDown(listener: (host: number) => void): () => void {
    return listen(this.#downListeners, listener);
  }

  /**
   * Resolves when the given host is up; without a number, when all hosts are. Rejects if the client is closed first.
   */
  waitUp(host: number | null = null): Promise<void> {
    if (host === null ? this.#allUp() : this.isUp(host)) return Promise.resolve();
    const deferred = createDeferred();
    if (this.#closed) deferred.reject(closedError());
    else this.#upWaits.push({ host, deferred });
    return deferred.promise;
  }

  /** Returns the number of the host on which the address is placed now. */
  place(to: ActorAddress): number {
    return placeAddress(this.#placement, to);
  }

  ask(to: ActorAddress, name: string, payload: unknown, options: AskOptions = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.request(to, name, payload, options, (error, value) => {
        if (error === null) resolve(value);
        else reject(new RuntimeError(error));
      });
    });
  }

  /**
   * Like `ask`, but with a callback. The callback is called exactly once. If the client itself refuses the ask, the
   * callback is called before this returns.
   * @throws msgpack's error if the payload cannot be encoded; the callback is then not called
   */
  request(to: ActorAddress, name: string, payload: unknown, options: AskOptions, settle: Settle): void {
    const refuse = (code: RuntimeErrorCode, reason: DeadLetterReason | null): void => {
      if (reason !== null) this.#bury(reason);
      settle(runtimeError(code, `${to.kind} ${name}: ${code}`), undefined);
    };
    if (!isValidKey(to.key)) return refuse('bad_address', 'bad_address');
    if (this.#pending.size >= this.#limits.max_pending_asks) return refuse('too_many_asks', null);
    const host = this.#placer.enter(to);
    const link = this.#links[host];
    if (link == null) {
      this.#placer.unsent(to, host);
      return refuse('host_down', 'host_down');
    }
    const deadline_ms = this.#scheduler.monotonicMs() + (options.deadline_ms ?? DEFAULT_ASK_DEADLINE_MS);
    const bodies = options.bodies ?? NO_BODIES;
    // Add it before sending, so that a link may deliver the answer immediately.
    const id = this.#pending.add({ to, name, host, deadline_ms, settle });
    let isSent = false;
    try {
      isSent = link.send({ type: 'ask', id, to, name, payload, deadline_ms, bodies });
    } finally {
      if (!isSent) {
        this.#pending.take(id);
        this.#placer.unsent(to, host);
      }
    }
    if (!isSent) return refuse('link_full', 'link_full');
    if (deadline_ms < this.#sweepAtMs) this.#scheduleSweep(deadline_ms);
  }

  tell(to: ActorAddress, name: string, payload: unknown, bodies: readonly Uint8Array[] = NO_BODIES): boolean {
    if (!isValidKey(to.key)) return this.#bury('bad_address');
    const host = this.#placer.enter(to);
    const link = this.#links[host];
    if (link?.send({ type: 'tell', to, name, payload, bodies })) return true;
    this.#placer.unsent(to, host);
    return this.#bury(link == null ? 'host_down' : 'link_full');
  }

  /**
   * Calls the listener for everything that actors publish on a topic from now on. After a host has restarted, the
   * listener misses what the host's actors publish before the client has its new link to the host. The listener also
   * misses what does not fit into a full link.
   * @returns a function that ends the subscription
   */
  subscribe(topic: string, listener: (payload: unknown) => void): () => void {
    let listeners = this.#subscriptions.get(topic);
    if (listeners === undefined) {
      listeners = new Set();
      this.#subscriptions.set(topic, listeners);
      for (const link of this.#links) link?.send({ type: 'subscribe', topic });
    }
    listeners.add(listener);
    return () => {
      if (!listeners.delete(listener) || listeners.size > 0) return;
      this.#subscriptions.delete(topic);
      for (const link of this.#links) link?.send({ type: 'unsubscribe', topic });
    };
  }

  /**
   * Waits until all messages sent so far have arrived in mailboxes, and until this thread can read the stored effects
   * of all asks that were answered so far. A host that has died, or whose link is full, is not waited for: its part of
   * both promises does not hold.
   */
  async fence(): Promise<void> {
    const waits: Promise<void>[] = [];
    for (const [host, link] of this.#links.entries()) {
      if (link === null) continue;
      const deferred = createDeferred();
      const id = this.#nextFence++;
      // Added before sending, because a link within the thread delivers the answer immediately.
      this.#fences.set(id, { host, done: deferred.resolve });
      if (link.send({ type: 'fence', id })) waits.push(deferred.promise);
      else this.#fences.delete(id);
    }
    await Promise.all(waits);
  }

  stats(): ActorClientStats {
    return {
      asks_pending: this.#pending.size,
      links: this.#links.map((link) => link?.stats() ?? null),
    };
  }

  /** Closes all links; unanswered asks fail with `host_down`. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const link of this.#links) link?.close();
    this.#cancelSweep?.();
    for (const wait of this.#upWaits.splice(0)) wait.deferred.reject(closedError());
  }

  #allUp(): boolean {
    return this.#links.every((link) => link !== null);
  }

  #receive(frame: Frame): void {
    switch (frame.type) {
      case 'reply':
      case 'error': {
        const pending = this.#pending.take(frame.id);
        if (pending === undefined) {
          this.#bury('late_reply');
          return;
        }
        if (frame.type === 'reply') pending.settle(null, frame.value);
        else pending.settle(frame.error, undefined);
        return;
      }
      case 'publish': {
        const listeners = this.#subscriptions.get(frame.topic);
        if (listeners !== undefined) for (const listener of [...listeners]) listener(frame.payload);
        return;
      }
      case 'fenced': {
        const fence = this.#fences.get(frame.id);
        this.#fences.delete(frame.id);
        fence?.done();
        return;
      }
      default: // messages go to actors only
        return;
    }
  }

  /** Handles the end of the host behind the link. Asks that wait for that host fail now, not at their deadlines. */
  #lose(host: number, link: Link): void {
    if (this.#links[host] !== link) return;
    this.#links[host] = null;
    for (const [id, fence] of this.#fences) {
      if (fence.host !== host) continue;
      this.#fences.delete(id);
      fence.done();
    }
    const lost: PendingAsk[] = [];
    for (const [id, pending] of this.#pending.entries()) {
      if (pending.host !== host) continue;
      this.#pending.take(id);
      lost.push(pending);
    }
    for (const pending of lost) {
      pending.settle(
        runtimeError('host_down', `${pending.to.kind} ${pending.name}: its thread has ended`),
        undefined,
      );
    }
    for (const listener of [...this.#downListeners]) listener(host);
  }

  /** Sets the one timer for all deadlines to the earliest deadline. */
  #scheduleSweep(atMs: number): void {
    this.#cancelSweep?.();
    this.#sweepAtMs = atMs;
    const delayMs = Math.max(SWEEP_GRAIN_MS, atMs - this.#scheduler.monotonicMs());
    this.#cancelSweep = this.#scheduler.later(delayMs, () => this.#sweep());
  }

  #sweep(): void {
    this.#cancelSweep = null;
    this.#sweepAtMs = Number.POSITIVE_INFINITY;
    const nowMs = this.#scheduler.monotonicMs();
    let nextMs = Number.POSITIVE_INFINITY;
    const late: PendingAsk[] = [];
    for (const [id, pending] of this.#pending.entries()) {
      if (pending.deadline_ms <= nowMs) {
        this.#pending.take(id);
        late.push(pending);
      } else if (pending.deadline_ms < nextMs) {
        nextMs = pending.deadline_ms;
      }
    }
    for (const pending of late) {
      const { to, name } = pending;
      pending.settle(runtimeError('deadline_exceeded', `${to.kind} ${name}: no answer in time`), undefined);
    }
    if (nextMs < this.#sweepAtMs) this.#scheduleSweep(nextMs);
  }

  #bury(reason: DeadLetterReason): false {
    this.deadLetters.add(reason);
    return false;
  }
}

function listen<Listener>(listeners: Set<Listener>, listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function closedError(): RuntimeError {
  return new RuntimeError(runtimeError('draining', 'this client is closed'));
}
