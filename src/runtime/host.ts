/**
 * The heart of the runtime: runs the actors of one thread. Takes frames from links, puts them into mailboxes, calls
 * handlers, performs what they decided. Knows neither threads nor sockets nor clocks: everything comes in through
 * HostParts, so the simulator runs this very code. Actor threads, front threads (and the simulator).
 *
 * Output gate: what a message causes (answers, tells, publications, io, compute) is released only when every event
 * that this actor has recorded up to and with that message is durable. Group commit: events of all actors recorded
 * while one commit is under way make the next one.
 */
import { Packr } from 'msgpackr';
import { createDeferred, type Deferred } from '../std/deferred.ts';
import { RingQueue } from '../std/ring-queue.ts';
import {
  type Batch,
  type Cell,
  type Delivery,
  isOverfull,
  type Kind,
  NO_BODIES,
  NO_REPLIES,
  NO_TIMERS,
  type Output,
  type ReplyTo,
  sumBytes,
  toldDelivery,
} from './cell.ts';
import { type DeadLetterReason, DeadLetters } from './dead-letters.ts';
import { describeError, type ErrorData, type RuntimeErrorCode, runtimeError } from './error.ts';
import type { HostStats, KindStats } from './host-stats.ts';
import type { JournalStore } from './journal.ts';
import type { Frame, Link } from './link.ts';
import {
  type ActorAddress,
  type AnyBehaviour,
  type Effect,
  isValidKey,
  type Placement,
  placeAddress,
  type ReplyToken,
  type RowWrite,
} from './protocol.ts';
import { NO_REPLY_TOKEN, Recorder } from './recorder.ts';
import type { Scheduler } from './scheduler.ts';
import { type KindPolicy, recordFailure } from './supervision.ts';

/** One kind of actor as a thread runs it. */
export interface KindDefinition {
  behaviour: AnyBehaviour;
  policy: KindPolicy;
}

/** What went wrong inside a host, for the log. Holds no payload. */
export interface HostReport {
  kind: string;
  key: string;
  /** The message, `activate`, or `commit`. */
  during: string;
  error: string;
  /** What follows. */
  outcome: 'restart' | 'stop' | 'lost';
}

/** Everything a host needs from outside. */
export interface HostParts {
  index: number;
  placement: Placement;
  kinds: readonly KindDefinition[];
  scheduler: Scheduler;
  /** Null when no kind of this thread is persistent. */
  journal: JournalStore | null;
  /** Performs an `io` effect; calls `done` once, never before it has returned. */
  performIo(
    port: string,
    operation: string,
    input: unknown,
    done: (error: unknown, value: unknown) => void,
  ): void;
  /** Performs a `compute` effect; calls `done` once, never before it has returned. */
  performCompute(task: string, input: unknown, done: (error: unknown, value: unknown) => void): void;
  /** Called for every failure of an actor. */
  report(report: HostReport): void;
}

/** Messages of one actor handled before the next ready actor has its turn. */
const FAIR_SHARE = 16;
/** Messages handled in one go before the event loop gets a turn; only chains of local tells reach it. */
const RUN_BUDGET = 4096;
const MAX_STOPPED_KEPT = 10_000;
const SWEEP_CELLS = 2_000;
/** Actors passivated in one go, and the wait before the next: their snapshots are one commit, which a socket waits for. */
const SWEEP_PASSIVATIONS = 32;
const SWEEP_PAUSE_MS = 20;
/** Actors looked at to make room for one. */
const ROOM_CELLS = 256;
const UNBOUNDED = 2 ** 30;
/** Runs the actors of one thread. */
export class ActorHost {
  readonly deadLetters = new DeadLetters();
  readonly #parts: HostParts;
  readonly #scheduler: Scheduler;
  readonly #kinds = new Map<string, Kind>();
  readonly #links = new Set<Link>();
  readonly #peers = new Map<number, Link>();
  readonly #subscribers = new Map<string, Set<Link>>();
  readonly #ready = new RingQueue<Cell>(UNBOUNDED);
  readonly #packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });
  #running = false;
  #runQueued = false;
  #nextToken = 1;

  #batch: Batch | null = null;
  #committing: Batch | null = null;
  #commitQueued = false;
  #lastTicket = 0;
  #durableTicket = 0;

  #cancelSweep: (() => void) | null = null;
  #sweepCursor: Iterator<Cell> | null = null;
  readonly #sweepEveryMs: number;

  #queuedMessages = 0;
  #heldEffects = 0;
  #ioInFlight = 0;
  #draining: Deferred<number> | null = null;
  /** Peers that have not confirmed yet that this thread's tells reached them. */
  readonly #unconfirmedPeers = new Set<Link>();
  #peersAsked = false;
  #handledTotal = 0;
  #refusing = false;
  #closed = false;

  #commits = 0;
  #failedCommits = 0;
  #events = 0;
  #snapshots = 0;
  #eventBytes = 0;

  constructor(parts: HostParts) {
    this.#parts = parts;
    this.#scheduler = parts.scheduler;
    let shortestIdle = Number.POSITIVE_INFINITY;
    for (const { behaviour, policy } of parts.kinds) {
      if (behaviour.persistence !== undefined && parts.journal === null) {
        throw new TypeError(`${behaviour.kind} is persistent and this thread has no journal`);
      }
      shortestIdle = Math.min(shortestIdle, policy.idle_after_ms);
      this.#kinds.set(behaviour.kind, {
        name: behaviour.kind,
        behaviour,
        policy,
        cells: new Map(),
        room_cursor: null,
        stopped: new Map(),
        stats: {
          live: 0,
          stopped: 0,
          mailbox_depth: 0,
          handled: 0,
          errors: 0,
          restarts: 0,
          activations: 0,
          passivations: 0,
          dead_letters: 0,
        },
      });
    }
    this.#sweepEveryMs = Math.max(10, Math.min(1000, shortestIdle / 2));
  }

  /** Takes over a link to a front: its frames arrive here from now on. */
  attachFront(link: Link): void {
    this.#adopt(link);
  }

  /** Takes over a link to another actor thread; tells to its actors go there. Replaces an earlier one. */
  attachPeer(index: number, link: Link): void {
    this.#peers.set(index, link);
    this.#adopt(link);
  }

  /** Delivers a message that comes from within this thread's composition root; never overflows to the caller. */
  tell(to: ActorAddress, name: string, payload: unknown, bodies: readonly Uint8Array[] = NO_BODIES): void {
    this.#route({ type: 'tell', to, name, payload, bodies });
  }

  /**
   * Takes no new messages but those of other actors, lets the accepted ones finish, makes everything durable and
   * passivates all actors. Timers that have not fired are forgotten. Another thread that drains may still tell
   * something to actors here: whoever drains several threads calls this again until the numbers stand still.
   * @returns messages handled since the start
   */
  drain(): Promise<number> {
    this.#refusing = true;
    this.#draining ??= createDeferred();
    const { promise } = this.#draining;
    this.#scheduler.soon(() => this.#checkDrained());
    return promise;
  }

  /** Ends at once: nothing more is handled or released. */
  close(): void {
    this.#closed = true;
    this.#cancelSweep?.();
    for (const kind of this.#kinds.values()) {
      for (const cell of kind.cells.values()) for (const cancel of cell.timers.values()) cancel();
    }
    for (const link of [...this.#links]) link.close();
  }

  stats(): HostStats {
    const kinds: Record<string, KindStats> = {};
    for (const kind of this.#kinds.values()) {
      kinds[kind.name] = { ...kind.stats, live: kind.cells.size, stopped: kind.stopped.size };
    }
    return {
      index: this.#parts.index,
      kinds,
      journal: {
        commits: this.#commits,
        failed_commits: this.#failedCommits,
        events: this.#events,
        snapshots: this.#snapshots,
        event_bytes: this.#eventBytes,
      },
      held_effects: this.#heldEffects,
      io_in_flight: this.#ioInFlight,
      dead_letters: this.deadLetters.counts(),
      links: [...this.#links].map((link) => link.stats()),
    };
  }

  // ---- frames in ----

  #adopt(link: Link): void {
    this.#links.add(link);
    link.onFrame = (frame) => this.#receive(link, frame);
    link.onClose = () => this.#forget(link);
  }

  #forget(link: Link): void {
    this.#links.delete(link);
    if (this.#unconfirmedPeers.delete(link)) this.#checkDrained();
    for (const [index, peer] of this.#peers) if (peer === link) this.#peers.delete(index);
    for (const [topic, links] of this.#subscribers) {
      links.delete(link);
      if (links.size === 0) this.#subscribers.delete(topic);
    }
  }

  #receive(link: Link, frame: Frame): void {
    if (this.#closed) return;
    switch (frame.type) {
      case 'ask':
        this.#deliver(
          frame.to,
          {
            name: frame.name,
            payload: frame.payload,
            bodies: frame.bodies,
            body_bytes: sumBytes(frame.bodies),
            internal: false,
            reply_to: { link, id: frame.id },
            deadline_ms: frame.deadline_ms,
          },
          false,
        );
        this.#run();
        return;
      case 'tell':
        this.#deliver(frame.to, toldDelivery(frame.name, frame.payload, frame.bodies), this.#isPeer(link));
        this.#run();
        return;
      case 'subscribe': {
        const links = this.#subscribers.get(frame.topic);
        if (links === undefined) this.#subscribers.set(frame.topic, new Set([link]));
        else links.add(link);
        return;
      }
      case 'unsubscribe': {
        const links = this.#subscribers.get(frame.topic);
        links?.delete(link);
        if (links?.size === 0) this.#subscribers.delete(frame.topic);
        return;
      }
      case 'fence':
        this.#settleJournal();
        link.send({ type: 'fenced', id: frame.id });
        return;
      case 'fenced':
        if (this.#unconfirmedPeers.delete(link)) this.#checkDrained();
        return;
      default: // answers and publications go to fronts only
        return;
    }
  }

  #settleJournal(): void {
    try {
      this.#parts.journal?.settle?.();
    } catch {
      // The next commit says so.
    }
  }

  #isPeer(link: Link): boolean {
    for (const peer of this.#peers.values()) if (peer === link) return true;
    return false;
  }

  /** @param fromActor a message between actors is still accepted while draining */
  #deliver(to: ActorAddress, delivery: Delivery, fromActor: boolean): void {
    if (this.#refusing && !fromActor) return this.#discard(to, delivery, 'draining', 'draining');
    const kind = this.#kinds.get(to.kind);
    if (kind === undefined) return this.#discard(to, delivery, 'unknown_kind', 'unknown_kind');
    if (!Object.hasOwn(kind.behaviour.handlers, delivery.name)) {
      return this.#discard(to, delivery, 'unknown_message', 'unknown_message');
    }
    let cell = kind.cells.get(to.key);
    if (cell === undefined) {
      const started = this.#activate(kind, to, delivery);
      if (started === null) return;
      cell = started;
    }
    this.#accept(cell, delivery);
  }

  /** Puts the message into the mailbox, or does what the kind's overflow rule says. */
  #accept(cell: Cell, delivery: Delivery): void {
    const { policy, stats } = cell.kind;
    const { mailbox } = cell;
    if (delivery.reply_to !== null && cell.replies.size >= policy.max_held_replies) {
      return this.#discard(cell.self, delivery, 'mailbox_full', 'mailbox_full');
    }
    if (isOverfull(cell, delivery)) {
      if (policy.overflow === 'reject')
        return this.#discard(cell.self, delivery, 'mailbox_full', 'mailbox_full');
      if (policy.overflow === 'drop_newest') {
        return this.#discard(cell.self, delivery, 'dropped', 'message_dropped');
      }
      while (isOverfull(cell, delivery)) {
        this.#discard(cell.self, this.#takeFromMailbox(cell)!, 'dropped', 'message_dropped');
      }
    }
    mailbox.push(delivery);
    cell.mailbox_bytes += delivery.body_bytes;
    stats.mailbox_depth++;
    this.#queuedMessages++;
    this.#schedule(cell);
  }

  #takeFromMailbox(cell: Cell): Delivery | undefined {
    const delivery = cell.mailbox.shift();
    if (delivery === undefined) return undefined;
    cell.mailbox_bytes -= delivery.body_bytes;
    cell.kind.stats.mailbox_depth--;
    this.#queuedMessages--;
    return delivery;
  }

  /** A message that is not handled: its asker hears of it at once, and it is among the dead letters. */
  #discard(to: ActorAddress, delivery: Delivery, reason: DeadLetterReason, code: RuntimeErrorCode): void {
    this.#bury(to, delivery.name, reason);
    if (delivery.reply_to !== null) {
      const { link, id } = delivery.reply_to;
      link.send({ type: 'error', id, error: runtimeError(code, `${to.kind} ${delivery.name}: ${code}`) });
    }
  }

  #bury(to: ActorAddress, name: string, reason: DeadLetterReason): void {
    this.deadLetters.add({ at_ms: this.#scheduler.wallMs(), kind: to.kind, key: to.key, name, reason });
    const kind = this.#kinds.get(to.kind);
    if (kind !== undefined) kind.stats.dead_letters++;
  }

  // ---- life of an actor ----

  /** Makes the actor; null when it cannot be, and the message has been discarded. */
  #activate(kind: Kind, to: ActorAddress, delivery: Delivery): Cell | null {
    if (!isValidKey(to.key)) {
      this.#discard(to, delivery, 'bad_address', 'bad_address');
      return null;
    }
    const nowMs = this.#scheduler.monotonicMs();
    const stoppedUntil = kind.stopped.get(to.key);
    if (stoppedUntil !== undefined) {
      if (stoppedUntil > nowMs) {
        this.#discard(to, delivery, 'actor_stopped', 'actor_stopped');
        return null;
      }
      kind.stopped.delete(to.key);
    }
    if (kind.cells.size >= kind.policy.max_live && !this.#makeRoom(kind)) {
      this.#discard(to, delivery, 'too_many_actors', 'too_many_actors');
      return null;
    }
    const cell: Cell = {
      self: { kind: to.kind, key: to.key },
      kind,
      status: 'ready',
      state: undefined,
      seq: 0,
      events_since_snapshot: 0,
      mailbox: new RingQueue(kind.policy.mailbox_capacity),
      mailbox_bytes: 0,
      internal: new RingQueue(UNBOUNDED),
      queued: false,
      held: new RingQueue(UNBOUNDED),
      gate_ticket: 0,
      undurable: 0,
      io_in_flight: 0,
      timers: NO_TIMERS,
      replies: NO_REPLIES,
      touched_at_ms: nowMs,
      life: 0,
      history: { failed_at_ms: [] },
      restart_due: false,
    };
    kind.cells.set(to.key, cell);
    if (!this.#start(cell)) {
      this.#discard(to, delivery, 'actor_stopped', 'actor_stopped');
      return null;
    }
    this.#scheduleSweep();
    return cell;
  }

  /** Brings the state in from storage and runs `activated`. A failed start stops the actor: false. */
  #start(cell: Cell): boolean {
    const { behaviour, stats } = cell.kind;
    try {
      this.#loadState(cell);
      cell.status = 'ready';
      stats.activations++;
      if (behaviour.activated !== undefined) {
        const recorder = this.#record(cell, NO_BODIES, NO_REPLY_TOKEN);
        behaviour.activated(cell.state, recorder as never);
        this.#perform(cell, recorder, NO_REPLY_TOKEN, null, 'activated');
      }
      return true;
    } catch (thrown) {
      stats.errors++;
      this.#stop(cell);
      this.#report(cell, 'activate', thrown, 'stop');
      return false;
    }
  }

  #loadState(cell: Cell): void {
    const { behaviour } = cell.kind;
    const { kind, key } = cell.self;
    const { persistence } = behaviour;
    if (persistence === undefined) {
      cell.state = behaviour.initial(key);
      return;
    }
    const stored = this.#parts.journal!.load(kind, key);
    let state: unknown;
    if (stored.snapshot === null) {
      state = behaviour.initial(key);
      cell.seq = 0;
    } else {
      const { version } = stored.snapshot;
      if (version > persistence.snapshot.version) {
        throw new RangeError(`snapshot version ${version} is newer than ${persistence.snapshot.version}`);
      }
      state = persistence.snapshot.decode(this.#packr.unpack(stored.snapshot.state), version);
      cell.seq = stored.snapshot.seq;
    }
    for (const event of stored.events) state = persistence.apply(state, this.#packr.unpack(event));
    cell.seq += stored.events.length;
    cell.events_since_snapshot = stored.events.length;
    cell.state = state;
  }

  /** Passivates the longest unused of the next idle actors; each call looks at a few, going round. */
  #makeRoom(kind: Kind): boolean {
    let best: Cell | null = null;
    let wrapped = false;
    for (let looked = 0; looked < ROOM_CELLS; looked++) {
      kind.room_cursor ??= kind.cells.values();
      const next = kind.room_cursor.next();
      if (next.done) {
        kind.room_cursor = null;
        if (wrapped) break;
        wrapped = true;
        continue;
      }
      const cell = next.value;
      if (this.#isIdle(cell) && (best === null || cell.touched_at_ms < best.touched_at_ms)) best = cell;
    }
    if (best === null) return false;
    this.#passivate(best);
    return true;
  }

  /** Nothing waits, nothing is on its way, nothing would be lost but the state itself. */
  #isIdle(cell: Cell): boolean {
    return (
      cell.status === 'ready' &&
      !cell.queued &&
      cell.mailbox.size === 0 &&
      cell.internal.size === 0 &&
      cell.io_in_flight === 0 &&
      cell.held.size === 0 &&
      cell.undurable === 0 &&
      cell.timers.size === 0 &&
      cell.replies.size === 0
    );
  }

  #passivate(cell: Cell): void {
    if (cell.events_since_snapshot > 0) {
      try {
        this.#stageSnapshot(cell);
      } catch (thrown) {
        // Its events are all there; only its next start will be longer.
        cell.kind.stats.errors++;
        this.#report(cell, 'snapshot', thrown, 'lost');
      }
    }
    cell.status = 'gone';
    cell.kind.cells.delete(cell.self.key);
    cell.kind.stats.passivations++;
  }

  #scheduleSweep(delayMs = this.#sweepEveryMs): void {
    if (this.#cancelSweep !== null || this.#closed) return;
    this.#cancelSweep = this.#scheduler.later(delayMs, () => this.#sweep());
  }

  /** Passivates idle actors, looking at some thousand a turn, so that no turn is long. */
  #sweep(): void {
    this.#cancelSweep = null;
    const nowMs = this.#scheduler.monotonicMs();
    this.#sweepCursor ??= this.#allCells();
    let passivated = 0;
    for (let i = 0; i < SWEEP_CELLS; i++) {
      if (passivated === SWEEP_PASSIVATIONS) return this.#scheduleSweep(SWEEP_PAUSE_MS);
      const next = this.#sweepCursor.next();
      if (next.done) {
        this.#sweepCursor = null;
        break;
      }
      const cell = next.value;
      if (nowMs - cell.touched_at_ms < cell.kind.policy.idle_after_ms || !this.#isIdle(cell)) continue;
      this.#passivate(cell);
      passivated++;
    }
    for (const kind of this.#kinds.values()) {
      if (kind.cells.size > 0) return this.#scheduleSweep();
    }
  }

  *#allCells(): Generator<Cell> {
    for (const kind of this.#kinds.values()) yield* kind.cells.values();
  }

  /** The actor's life ends in failure: back to what is stored, after a pause, or stopped when it failed too often. */
  #fail(cell: Cell, during: string, thrown: unknown): void {
    const { policy, stats } = cell.kind;
    stats.errors++;
    cell.life++;
    for (const cancel of cell.timers.values()) cancel();
    cell.timers.clear();
    this.#queuedMessages -= cell.internal.size;
    cell.internal.clear();
    for (const to of cell.replies.values()) {
      this.#emit(cell, { type: 'error', to, error: restartedError(cell.self), name: during });
    }
    cell.replies.clear();
    const backoffMs = recordFailure(policy.restart, cell.history, this.#scheduler.monotonicMs());
    if (backoffMs === null) {
      this.#stop(cell);
      this.#report(cell, during, thrown, 'stop');
      return;
    }
    cell.status = 'restarting';
    cell.restart_due = false;
    this.#report(cell, during, thrown, 'restart');
    const { life } = cell;
    this.#scheduler.later(backoffMs, () => {
      if (cell.status !== 'restarting' || cell.life !== life || this.#closed) return;
      cell.restart_due = true;
      this.#restartIfDurable(cell);
      this.#run();
    });
  }

  /** Storage speaks for the actor only when everything it recorded has been decided. */
  #restartIfDurable(cell: Cell): void {
    if (!cell.restart_due || cell.undurable > 0) return;
    cell.restart_due = false;
    cell.kind.stats.restarts++;
    if (this.#start(cell)) this.#schedule(cell);
  }

  /** Ends the actor; its waiting messages go to the dead letters. What is held for the journal is still released. */
  #stop(cell: Cell): void {
    const { kind } = cell;
    cell.status = 'gone';
    cell.life++;
    for (const cancel of cell.timers.values()) cancel();
    cell.timers.clear();
    this.#queuedMessages -= cell.internal.size;
    cell.internal.clear();
    kind.cells.delete(cell.self.key);
    if (kind.stopped.size >= MAX_STOPPED_KEPT) kind.stopped.delete(kind.stopped.keys().next().value!);
    // It must not start from storage while events of it are still on their way there.
    kind.stopped.set(cell.self.key, cell.undurable > 0 ? Number.POSITIVE_INFINITY : this.#stoppedUntil(kind));
    let delivery = this.#takeFromMailbox(cell);
    while (delivery !== undefined) {
      this.#discard(cell.self, delivery, 'actor_stopped', 'actor_stopped');
      delivery = this.#takeFromMailbox(cell);
    }
  }

  #stoppedUntil(kind: Kind): number {
    return this.#scheduler.monotonicMs() + kind.policy.stopped_for_ms;
  }

  #report(cell: Cell, during: string, thrown: unknown, outcome: HostReport['outcome']): void {
    this.#parts.report({
      kind: cell.self.kind,
      key: cell.self.key,
      during,
      error: thrown instanceof Error ? (thrown.stack ?? describeError(thrown)) : describeError(thrown),
      outcome,
    });
  }

  // ---- running ----

  #mayTake(cell: Cell): boolean {
    const { policy } = cell.kind;
    return (
      cell.mailbox.size > 0 &&
      cell.io_in_flight < policy.max_io_in_flight &&
      cell.held.size < policy.max_held_effects &&
      cell.undurable < policy.max_held_effects
    );
  }

  #schedule(cell: Cell): void {
    if (cell.queued || cell.status !== 'ready') return;
    if (cell.internal.size === 0 && !this.#mayTake(cell)) return;
    cell.queued = true;
    this.#ready.push(cell);
  }

  /** Handles messages until no actor is ready. Re-entrant calls return at once: the outer one goes on. */
  #run(): void {
    if (this.#running || this.#closed) return;
    this.#running = true;
    let budget = RUN_BUDGET;
    try {
      for (let cell = this.#ready.shift(); cell !== undefined; cell = this.#ready.shift()) {
        cell.queued = false;
        for (let i = 0; i < FAIR_SHARE && cell.status === 'ready'; i++) {
          const delivery = this.#next(cell);
          if (delivery === undefined) break;
          this.#handle(cell, delivery);
          budget--;
        }
        this.#schedule(cell);
        if (budget <= 0) {
          this.#runSoon();
          break;
        }
      }
    } finally {
      this.#running = false;
    }
    this.#checkDrained();
  }

  #runSoon(): void {
    if (this.#runQueued) return;
    this.#runQueued = true;
    this.#scheduler.soon(() => {
      this.#runQueued = false;
      this.#run();
    });
  }

  /** Outcomes and timers first: they free what new messages would take up. */
  #next(cell: Cell): Delivery | undefined {
    const internal = cell.internal.shift();
    if (internal !== undefined) {
      this.#queuedMessages--;
      return internal;
    }
    return this.#mayTake(cell) ? this.#takeFromMailbox(cell) : undefined;
  }

  #handle(cell: Cell, delivery: Delivery): void {
    const { kind } = cell;
    const nowMs = this.#scheduler.monotonicMs();
    cell.touched_at_ms = nowMs;
    if (delivery.deadline_ms <= nowMs) {
      return this.#bury(cell.self, delivery.name, 'expired'); // its asker has given up already
    }
    const token = delivery.reply_to === null ? NO_REPLY_TOKEN : this.#nextToken++;
    const recorder = this.#record(cell, delivery.bodies, token, nowMs);
    try {
      const handlers = delivery.internal ? kind.behaviour.internal : kind.behaviour.handlers;
      handlers[delivery.name]!(cell.state, delivery.payload, recorder as never);
      kind.stats.handled++;
      this.#handledTotal++;
      this.#perform(cell, recorder, token, delivery.reply_to, delivery.name);
    } catch (thrown) {
      if (delivery.reply_to !== null) {
        const error = runtimeError('actor_failed', `${kind.name} ${delivery.name}: the handler failed`);
        this.#emit(cell, { type: 'error', to: delivery.reply_to, error, name: delivery.name });
      }
      return this.#fail(cell, delivery.name, thrown);
    }
    const { persistence } = kind.behaviour;
    if (persistence === undefined || cell.events_since_snapshot < persistence.snapshot.every_events) return;
    try {
      this.#stageSnapshot(cell);
    } catch (thrown) {
      this.#fail(cell, 'snapshot', thrown);
    }
  }

  #record(
    cell: Cell,
    bodies: readonly Uint8Array[],
    token: ReplyToken,
    monotonic_ms = this.#scheduler.monotonicMs(),
  ): Recorder {
    return new Recorder(cell.kind.behaviour, cell.state, {
      self: cell.self,
      now_ms: this.#scheduler.wallMs(),
      monotonic_ms,
      bodies,
      token,
    });
  }

  // ---- effects ----

  /**
   * Does what the handler decided: events are staged first, so that everything else of this message waits for them.
   * Throws (an event that msgpack cannot hold, too many timers) only before it has changed anything.
   */
  #perform(cell: Cell, recorder: Recorder, token: ReplyToken, replyTo: ReplyTo | null, name: string): void {
    const { effects } = recorder;
    this.#checkTimers(cell, effects);
    if (recorder.persisted > 0) {
      const encoded: [event: Uint8Array, rows: readonly RowWrite[]][] = [];
      for (const effect of effects) {
        if (effect.type === 'persist') encoded.push([this.#packr.pack(effect.event), effect.rows]);
      }
      for (const [event, rows] of encoded) this.#stageEvent(cell, event, rows);
      cell.state = recorder.state;
    }
    if (recorder.held && replyTo !== null) {
      if (cell.replies === NO_REPLIES) cell.replies = new Map();
      cell.replies.set(token, replyTo);
    }
    for (const effect of effects) {
      switch (effect.type) {
        case 'persist':
          break;
        case 'reply':
        case 'refuse': {
          const to = this.#claimReply(cell, effect.token, token, recorder.held ? null : replyTo);
          if (to === null) this.#bury(cell.self, name, 'unknown_reply');
          else if (effect.type === 'reply')
            this.#emit(cell, { type: 'reply', to, value: effect.value, name });
          else this.#emit(cell, { type: 'error', to, error: effect.error, name });
          break;
        }
        case 'set_timer':
          this.#setTimer(cell, effect);
          break;
        case 'cancel_timer':
          cell.timers.get(effect.timer)?.();
          cell.timers.delete(effect.timer);
          break;
        case 'io':
        case 'compute':
          cell.io_in_flight++;
          this.#ioInFlight++;
          this.#emit(cell, { ...effect, life: cell.life });
          break;
        default:
          this.#emit(cell, effect);
      }
    }
    if (recorder.unanswered && replyTo !== null) {
      cell.kind.stats.errors++;
      const error = runtimeError('no_reply', `${cell.self.kind} ${name}: the handler gave no answer`);
      this.#emit(cell, { type: 'error', to: replyTo, error, name });
    }
  }

  /** Where the answer with this token goes; each token answers once. */
  #claimReply(cell: Cell, token: ReplyToken, current: ReplyToken, currentTo: ReplyTo | null): ReplyTo | null {
    if (token === current && currentTo !== null) return currentTo;
    const to = cell.replies.get(token);
    if (to === undefined) return null;
    cell.replies.delete(token);
    return to;
  }

  #checkTimers(cell: Cell, effects: readonly Effect[]): void {
    let count = cell.timers.size;
    for (const effect of effects) if (effect.type === 'set_timer' && !cell.timers.has(effect.timer)) count++;
    const { max_timers } = cell.kind.policy;
    if (count > cell.timers.size && count > max_timers)
      throw new RangeError(`more than ${max_timers} timers`);
  }

  #setTimer(cell: Cell, effect: Extract<Effect, { type: 'set_timer' }>): void {
    cell.timers.get(effect.timer)?.();
    cell.timers.delete(effect.timer);
    const cancel = this.#scheduler.later(effect.delay_ms, () => {
      if (cell.timers.get(effect.timer) !== cancel) return;
      cell.timers.delete(effect.timer);
      this.#deliverInternal(cell, effect.name, effect.payload);
    });
    if (cell.timers === NO_TIMERS) cell.timers = new Map();
    cell.timers.set(effect.timer, cancel);
  }

  #deliverInternal(cell: Cell, name: string, payload: unknown): void {
    if (this.#closed) return;
    const delivery = toldDelivery(name, payload, NO_BODIES);
    delivery.internal = true;
    cell.internal.push(delivery);
    this.#queuedMessages++;
    this.#schedule(cell);
    this.#run();
  }

  /** Releases the output, or holds it until the events before it are durable. */
  #emit(cell: Cell, output: Output): void {
    if (cell.gate_ticket > this.#durableTicket) {
      cell.held.push({ ticket: cell.gate_ticket, output });
      this.#heldEffects++;
    } else {
      this.#release(cell, output);
    }
  }

  /** Never throws: what cannot be encoded fails its message alone, not the actor and not the commit it came with. */
  #release(cell: Cell, output: Output): void {
    try {
      this.#send(cell, output);
    } catch (thrown) {
      cell.kind.stats.errors++;
      this.#report(cell, 'name' in output ? output.name : output.type, thrown, 'lost');
      if (output.type === 'reply' || output.type === 'error') {
        const error = runtimeError('no_reply', `${cell.self.kind} ${output.name}: the answer cannot be sent`);
        output.to.link.send({ type: 'error', id: output.to.id, error });
      } else if (output.type === 'io' || output.type === 'compute') {
        const done = this.#outcome(cell, output);
        this.#scheduler.soon(() => done(thrown, undefined));
      }
    }
  }

  #send(cell: Cell, output: Output): void {
    switch (output.type) {
      case 'reply':
        if (!output.to.link.send({ type: 'reply', id: output.to.id, value: output.value })) {
          this.#bury(cell.self, output.name, 'link_full');
        }
        return;
      case 'error':
        if (!output.to.link.send({ type: 'error', id: output.to.id, error: output.error })) {
          this.#bury(cell.self, output.name, 'link_full');
        }
        return;
      case 'tell':
        this.#route(output);
        return;
      case 'publish': {
        const links = this.#subscribers.get(output.topic);
        if (links === undefined) return;
        for (const link of links) {
          if (!link.send({ type: 'publish', topic: output.topic, payload: output.payload })) {
            this.#bury(cell.self, `publish ${output.topic}`, 'link_full');
          }
        }
        return;
      }
      case 'io':
        this.#parts.performIo(output.port, output.operation, output.input, this.#outcome(cell, output));
        return;
      case 'compute':
        this.#parts.performCompute(output.task, output.input, this.#outcome(cell, output));
        return;
    }
  }

  #outcome(
    cell: Cell,
    effect: { name: string; carry: unknown; life: number },
  ): (error: unknown, value: unknown) => void {
    const { life } = effect;
    return (error, value) => {
      if (this.#closed) return;
      cell.io_in_flight--;
      this.#ioInFlight--;
      const { carry } = effect;
      if (cell.life !== life) {
        this.#bury(cell.self, effect.name, 'stale_outcome');
        this.#schedule(cell);
        this.#run();
        return;
      }
      const outcome =
        error === null || error === undefined
          ? { ok: true, value, carry }
          : { ok: false, error: toRefusal(error), carry };
      this.#deliverInternal(cell, effect.name, outcome);
    };
  }

  /** Sends a tell to wherever its address lives. */
  #route(message: {
    to: ActorAddress;
    name: string;
    payload: unknown;
    bodies: readonly Uint8Array[];
    type: 'tell';
  }) {
    const index = placeAddress(this.#parts.placement, message.to);
    if (index === this.#parts.index) {
      this.#deliver(message.to, toldDelivery(message.name, message.payload, message.bodies), true);
      if (!this.#running) this.#run();
      return;
    }
    const peer = this.#peers.get(index);
    if (peer === undefined) this.#bury(message.to, message.name, 'host_down');
    else if (!peer.send(message)) this.#bury(message.to, message.name, 'link_full');
  }

  // ---- journal ----

  #openBatch(): Batch {
    if (this.#batch === null) {
      this.#batch = { ticket: ++this.#lastTicket, writes: [], events: new Map() };
      if (this.#committing === null && !this.#commitQueued) {
        this.#commitQueued = true;
        // At the end of the turn: everything that this turn records shares one commit.
        this.#scheduler.soon(() => {
          this.#commitQueued = false;
          this.#commit();
        });
      }
    }
    return this.#batch;
  }

  #stageEvent(cell: Cell, event: Uint8Array, rows: readonly RowWrite[]): void {
    const batch = this.#openBatch();
    const { kind, key } = cell.self;
    cell.seq++;
    cell.events_since_snapshot++;
    cell.undurable++;
    cell.gate_ticket = batch.ticket;
    batch.events.set(cell, (batch.events.get(cell) ?? 0) + 1);
    batch.writes.push({ type: 'event', kind, key, seq: cell.seq, event });
    for (const row of rows) batch.writes.push({ type: 'row', kind, key, row });
    this.#events++;
    this.#eventBytes += event.length;
  }

  #stageSnapshot(cell: Cell): void {
    const { snapshot } = cell.kind.behaviour.persistence!;
    const { kind, key } = cell.self;
    const state = this.#packr.pack(snapshot.encode(cell.state));
    this.#openBatch().writes.push({
      type: 'snapshot',
      kind,
      key,
      seq: cell.seq,
      version: snapshot.version,
      state,
    });
    cell.events_since_snapshot = 0;
    this.#snapshots++;
  }

  #commit(): void {
    if (this.#committing !== null || this.#batch === null || this.#closed) return;
    const batch = this.#batch;
    this.#batch = null;
    this.#committing = batch;
    this.#parts.journal!.commit(batch.writes, (error) => {
      if (this.#closed) return;
      this.#committing = null;
      this.#durableTicket = batch.ticket;
      // What is released may be a tell to an actor here. Nothing is handled before all of it is out, or an answer to
      // that tell would overtake what its receiver still holds.
      this.#running = true;
      try {
        if (error === null) this.#finishCommit(batch);
        else this.#failCommit(batch, error);
      } finally {
        this.#running = false;
      }
      // Now, not at the end of the turn: the next commit may take the thread for as long as a message takes to travel.
      for (const link of this.#links) link.flush();
      this.#commit();
      // In a turn of their own: answers that were released are on their way to sockets of this very thread, perhaps.
      if (this.#ready.size > 0) this.#runSoon();
      else this.#checkDrained();
    });
  }

  #finishCommit(batch: Batch): void {
    this.#commits++;
    for (const [cell, events] of batch.events) {
      cell.undurable -= events;
      for (
        let first = cell.held.peek();
        first !== undefined && first.ticket <= batch.ticket;
        first = cell.held.peek()
      ) {
        cell.held.shift();
        this.#heldEffects--;
        this.#release(cell, first.output);
      }
      this.#settle(cell);
    }
  }

  /** Everything that the actor had in a commit is decided. */
  #settle(cell: Cell): void {
    if (cell.undurable > 0) return;
    const { kind, self } = cell;
    if (cell.status === 'restarting') this.#restartIfDurable(cell);
    else if (cell.status === 'ready') this.#schedule(cell);
    else if (kind.stopped.get(self.key) === Number.POSITIVE_INFINITY) {
      kind.stopped.set(self.key, this.#stoppedUntil(kind));
    }
  }

  /** Nobody hears of what is not stored: the actors concerned go back to what is. */
  #failCommit(batch: Batch, error: Error): void {
    this.#failedCommits++;
    const next = this.#batch;
    if (next !== null) {
      // What these actors recorded since then stands on events that do not exist.
      const lost = new Set<string>();
      for (const cell of batch.events.keys()) {
        lost.add(addressText(cell.self));
        next.events.delete(cell);
      }
      next.writes = next.writes.filter((write) => !lost.has(addressText(write)));
      if (next.writes.length === 0) this.#batch = null;
    }
    for (const cell of batch.events.keys()) {
      cell.undurable = 0;
      cell.gate_ticket = 0;
      for (let item = cell.held.shift(); item !== undefined; item = cell.held.shift()) {
        this.#heldEffects--;
        this.#withdraw(cell, item.output);
      }
      if (cell.status === 'ready') this.#fail(cell, 'commit', error);
      else this.#settle(cell);
    }
  }

  /** An output that must not be released: askers hear that storage failed, the rest goes to the dead letters. */
  #withdraw(cell: Cell, output: Output): void {
    switch (output.type) {
      case 'reply':
      case 'error': {
        const error = runtimeError('storage_unavailable', `${cell.self.kind} ${output.name}: not stored`);
        output.to.link.send({ type: 'error', id: output.to.id, error });
        return;
      }
      case 'tell':
        this.#bury(output.to, output.name, 'not_durable');
        return;
      case 'publish':
        this.#bury(cell.self, `publish ${output.topic}`, 'not_durable');
        return;
      case 'io':
      case 'compute':
        cell.io_in_flight--;
        this.#ioInFlight--;
        this.#bury(cell.self, output.name, 'not_durable');
        return;
    }
  }

  // ---- end ----

  #checkDrained(): void {
    const draining = this.#draining;
    if (draining === null || this.#closed) return;
    if (this.#queuedMessages > 0 || this.#heldEffects > 0 || this.#ioInFlight > 0) return;
    if (this.#committing !== null || this.#batch !== null) return;
    for (const kind of this.#kinds.values()) {
      for (const cell of [...kind.cells.values()]) {
        for (const cancel of cell.timers.values()) cancel();
        cell.timers.clear();
        if (this.#isIdle(cell)) this.#passivate(cell);
      }
    }
    // Snapshots may have opened a last batch; its commit comes back here.
    if (this.#batch !== null) return;
    if (!this.#peersAsked) {
      this.#peersAsked = true;
      for (const peer of this.#peers.values())
        if (peer.send({ type: 'fence', id: 0 })) this.#unconfirmedPeers.add(peer);
    }
    if (this.#unconfirmedPeers.size > 0) return;
    this.#peersAsked = false;
    this.#draining = null;
    draining.resolve(this.#handledTotal);
  }
}

function addressText(address: ActorAddress): string {
  return `${address.kind}\0${address.key}`;
}

function restartedError(self: ActorAddress): ErrorData {
  return runtimeError('actor_restarted', `${self.kind}: started again before it answered`);
}

/** A failure of a port or a task as data; its own code and retryability are kept when it has them. */
function toRefusal(thrown: unknown): ErrorData {
  const { code, retryable } = (
    typeof thrown === 'object' && thrown !== null ? thrown : {}
  ) as Partial<ErrorData>;
  return {
    code: typeof code === 'string' ? code : 'io_failed',
    message: describeError(thrown),
    retryable: retryable === true,
  };
}
