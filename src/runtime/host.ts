/**
 * Runs the actors of one thread: takes frames from links, puts them into mailboxes, dispatches them, and releases the
 * resulting effects. It uses neither threads nor sockets nor clocks directly. It gets all of these through HostParts,
 * so the simulator runs the same code. Its parts are in `host/`. Actor threads, server threads (and the simulator).
 */

import { DeadLetters } from './dead-letters.ts';
import { runtimeError } from './error.ts';
import {
  type Cell,
  cancelTimers,
  createKind,
  type Delivery,
  type Kind,
  NO_BODIES,
  sumBytes,
  toldDelivery,
} from './host/cell.ts';
import { Dispatch } from './host/dispatch.ts';
import { Draining } from './host/draining.ts';
import { addressText, type Batch, HostJournal, type Verdict } from './host/host-journal.ts';
import { HostLinks } from './host/host-links.ts';
import { Lifecycle } from './host/lifecycle.ts';
import { Mailboxes } from './host/mailboxes.ts';
import { type EffectPerformers, OutputGate, type Tell } from './host/output-gate.ts';
import { Passivation } from './host/passivation.ts';
import { RELEASE_EVERY_MS, Tenure } from './host/tenure.ts';
import { Undelivered } from './host/undelivered.ts';
import type { HostReport } from './host-report.ts';
import type { HostStats, KindStats } from './host-stats.ts';
import { type JournalStore, JournalUnavailableError } from './journal.ts';
import type { Frame, Link } from './link.ts';
import { Placer } from './placer.ts';
import type { ActorAddress, AnyBehaviour, Placement } from './protocol.ts';
import type { Scheduler } from './scheduler.ts';
import type { KindPolicy } from './supervision.ts';

/** A kind of actor with its bounds. */
export interface KindDefinition {
  behaviour: AnyBehaviour;
  policy: KindPolicy;
}

/** Everything a host needs from outside. */
export interface HostParts extends EffectPerformers {
  index: number;
  placement: Placement;
  kinds: readonly KindDefinition[];
  scheduler: Scheduler;
  /** Null if no kind of this thread is persistent. */
  journal: JournalStore | null;
  /** Interval at which the host releases slots without actors; default RELEASE_EVERY_MS. */
  release_every_ms?: number;
  /** Called for every failure of an actor, and for every output or snapshot that cannot be encoded. */
  report(report: HostReport): void;
}

/** Maximum number of messages that one actor handles before the next ready actor has its turn. */
const FAIR_SHARE = 16;
/**
 * After about this many messages, the host lets the event loop tick. This number can be reached by chains of
 * tells between actors of this host, and by messages that have waited for a commit or a load.
 */
const RUN_BUDGET = 4096;

/** Runs the actors of one thread. */
export class ActorHost {
  readonly deadLetters = new DeadLetters();
  readonly #parts: HostParts;
  readonly #scheduler: Scheduler;
  readonly #kinds = new Map<string, Kind>();
  readonly #links = new HostLinks();
  readonly #lost: Undelivered;
  readonly #mailboxes: Mailboxes;
  readonly #journal: HostJournal;
  readonly #gate: OutputGate;
  readonly #dispatch: Dispatch;
  readonly #passivation: Passivation;
  readonly #lifecycle: Lifecycle;
  readonly #draining: Draining;
  readonly #placer: Placer;
  readonly #tenure: Tenure;
  #running = false;
  #runQueued = false;

  constructor(parts: HostParts) {
    const { scheduler } = parts;
    this.#parts = parts;
    this.#scheduler = scheduler;
    for (const { behaviour, policy } of parts.kinds) {
      if (behaviour.persistence !== undefined && parts.journal === null) {
        throw new TypeError(`${behaviour.kind} is persistent and this thread has no journal`);
      }
      this.#kinds.set(behaviour.kind, createKind(behaviour, policy));
    }
    const kinds = this.#kinds;
    const links = this.#links;
    const report = (failure: HostReport): void => parts.report(failure);
    const lost = new Undelivered(this.deadLetters, kinds);
    const mailboxes = new Mailboxes(lost, () => this.#run());
    const journal = new HostJournal(
      parts.journal,
      scheduler,
      (batch, verdict) => this.#decide(batch, verdict),
      (addresses) => this.#lose(addresses),
    );
    const route = (message: Tell): void => this.#route(message);
    const gate = new OutputGate({
      journal,
      links,
      mailboxes,
      lost,
      scheduler,
      performers: parts,
      route,
      report,
    });
    const dispatch = new Dispatch({ journal, gate, mailboxes, lost, scheduler });
    const placer = new Placer(parts.placement, parts.index);
    const tenure = new Tenure({
      placement: parts.placement,
      placer,
      kinds,
      journal,
      scheduler,
      release_every_ms: parts.release_every_ms ?? RELEASE_EVERY_MS,
    });
    const passivation = new Passivation({ kinds, journal, scheduler, tenure, report });
    this.#placer = placer;
    this.#tenure = tenure;
    this.#lost = lost;
    this.#mailboxes = mailboxes;
    this.#journal = journal;
    this.#gate = gate;
    this.#dispatch = dispatch;
    this.#passivation = passivation;
    this.#lifecycle = new Lifecycle({
      journal,
      gate,
      dispatch,
      passivation,
      mailboxes,
      lost,
      scheduler,
      tenure,
      report,
    });
    this.#draining = new Draining({ journal, gate, dispatch, passivation, mailboxes, links, scheduler });
  }

  /**
   * Takes a link to a client, whose frames this host then receives.
   * @param isOwn whether the client is on the host's own thread
   */
  attachClient(link: Link, isOwn = false): void {
    this.#adopt(link, isOwn);
  }

  /** Takes a link to host `index`, for tells to the actors of that host. Replaces an earlier link to that host. */
  attachPeer(index: number, link: Link): void {
    this.#links.addPeer(index, link);
    this.#adopt(link, false);
  }

  /**
   * Sends a message from code of this thread that is not an actor. A message that cannot be delivered is counted as a dead
   * letter.
   */
  tell(to: ActorAddress, name: string, payload: unknown, bodies: readonly Uint8Array[] = NO_BODIES): void {
    this.#route({ type: 'tell', to, name, payload, bodies });
  }

  /**
   * Accepts only messages of other actors from now on, finishes the accepted ones, makes everything durable and
   * passivates all actors that keep no answers for later. Pending timers are dropped. Another draining thread may still
   * send messages to this host, so a caller that drains several threads repeats this until the numbers no longer change.
   * @returns number of messages handled since the start
   */
  drain(): Promise<number> {
    return this.#draining.begin();
  }

  /** Ends at once: no message is handled and no effect is released any more. */
  close(): void {
    this.#mailboxes.close();
    this.#journal.close();
    this.#passivation.close();
    this.#tenure.close();
    for (const kind of this.#kinds.values()) {
      for (const cell of kind.cells.values()) cancelTimers(cell);
    }
    this.#links.close();
  }

  stats(): HostStats {
    const kinds: Record<string, KindStats> = {};
    for (const kind of this.#kinds.values()) {
      kinds[kind.name] = {
        ...kind.stats,
        live: kind.cells.size,
        stopped: kind.stopped.size,
        counts: structuredClone(kind.stats.counts),
      };
    }
    return {
      index: this.#parts.index,
      kinds,
      held_effects: this.#gate.held,
      io_in_flight: this.#gate.ioInFlight,
      dead_letters: this.deadLetters.counts(),
    };
  }

  // ---- messages in ----

  #adopt(link: Link, isOwn: boolean): void {
    this.#links.add(link);
    link.onFrame = (frame) => this.#receive(link, frame, isOwn);
    link.onClose = () => {
      this.#links.forget(link);
      this.#draining.confirm(link);
    };
  }

  #receive(link: Link, frame: Frame, isOwn: boolean): void {
    if (this.#mailboxes.closed) return;
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
        if (!isOwn) this.#placer.arrived(frame.to);
        this.#run();
        return;
      case 'tell': {
        const delivery = toldDelivery(frame.name, frame.payload, frame.bodies);
        this.#deliver(frame.to, delivery, this.#links.isPeer(link));
        if (!isOwn) this.#placer.arrived(frame.to);
        this.#run();
        return;
      }
      case 'subscribe':
        this.#links.subscribe(frame.topic, link);
        return;
      case 'unsubscribe':
        this.#links.unsubscribe(frame.topic, link);
        return;
      case 'fence':
        this.#journal.settle();
        link.send({ type: 'fenced', id: frame.id });
        return;
      case 'fenced':
        this.#draining.confirm(link);
        return;
      default: // answers and publications go to clients only
        return;
    }
  }

  /** Sends a tell to the host of its address. */
  #route(message: Tell): void {
    const index = this.#placer.enter(message.to);
    if (index === this.#parts.index) {
      this.#deliver(message.to, toldDelivery(message.name, message.payload, message.bodies), true);
      this.#run();
      return;
    }
    const peer = this.#links.peer(index);
    if (peer?.send(message)) return;
    this.#placer.unsent(message.to, index);
    this.#lost.bury(message.to, peer === undefined ? 'host_down' : 'link_full');
  }

  /**
   * Puts a message into the mailbox of its actor, which is loaded if necessary, or discards the message.
   * @param fromActor whether an actor has sent the message; such messages are still accepted while draining
   */
  #deliver(to: ActorAddress, delivery: Delivery, fromActor: boolean): void {
    if (this.#draining.begun && !fromActor) return this.#lost.discard(to, delivery, 'draining', 'draining');
    const kind = this.#kinds.get(to.kind);
    if (kind === undefined) return this.#lost.discard(to, delivery, 'unknown_kind', 'unknown_kind');
    if (!Object.hasOwn(kind.behaviour.handlers, delivery.name)) {
      return this.#lost.discard(to, delivery, 'unknown_message', 'unknown_message');
    }
    const cell = kind.cells.get(to.key) ?? this.#lifecycle.activate(kind, to, delivery);
    if (cell !== null) this.#mailboxes.accept(cell, delivery);
  }

  // ---- dispatch ----

  /**
   * Handles messages until no actor is ready, or, after RUN_BUDGET messages, continues in a later tick. A reentrant call
   * returns at once, because the outer call continues.
   */
  #run(): void {
    if (this.#running || this.#mailboxes.closed) return;
    this.#running = true;
    let budget = RUN_BUDGET;
    const mailboxes = this.#mailboxes;
    try {
      for (let cell = mailboxes.nextReady(); cell !== undefined; cell = mailboxes.nextReady()) {
        for (let i = 0; i < FAIR_SHARE && cell.status === 'ready'; i++) {
          const delivery = mailboxes.next(cell);
          if (delivery === undefined) break;
          this.#handle(cell, delivery);
          budget--;
        }
        mailboxes.schedule(cell);
        if (budget <= 0) {
          this.#runSoon();
          break;
        }
      }
    } finally {
      this.#running = false;
    }
    this.#draining.check();
  }

  #runSoon(): void {
    if (this.#runQueued) return;
    this.#runQueued = true;
    this.#scheduler.soon(() => {
      this.#runQueued = false;
      this.#run();
    });
  }

  #handle(cell: Cell, delivery: Delivery): void {
    const nowMs = this.#scheduler.monotonicMs();
    cell.touched_at_ms = nowMs;
    if (delivery.deadline_ms <= nowMs) {
      return this.#lost.bury(cell.self, 'expired'); // the asker does not wait any more
    }
    try {
      this.#dispatch.take(cell, delivery, nowMs);
    } catch (thrown) {
      if (delivery.reply_to !== null) {
        const error = runtimeError('actor_failed', `${cell.kind.name} ${delivery.name}: the handler failed`);
        const { reply_to: to, name } = delivery;
        this.#gate.emit(cell, { type: 'error', to, error, name, kept: false });
      }
      return this.#lifecycle.fail(cell, delivery.name, thrown);
    }
    if (!this.#journal.isSnapshotDue(cell)) return;
    try {
      this.#journal.stageSnapshot(cell);
    } catch (thrown) {
      this.#lifecycle.fail(cell, 'snapshot', thrown);
    }
  }

  // ---- commits ----

  /** Called when a commit has ended: releases the effects that waited for it, or withdraws them, and continues. */
  #decide(batch: Batch, { error, lost }: Verdict): void {
    // No message is handled before all effects are released, because a released effect may be a tell to an actor of
    // this host. Otherwise the answer to that tell could overtake effects that are not released yet.
    this.#running = true;
    try {
      if (error === null) this.#release(batch, lost);
      else this.#takeBack(batch, error);
      this.#lifecycle.loadWaiting();
    } finally {
      this.#running = false;
    }
    // Flush now, not at the end of the tick, because the next commit may block the thread.
    this.#links.flush();
    this.#journal.commit();
    // The next messages are handled in a separate tick, because released answers may still have to reach sockets of
    // this thread.
    if (this.#mailboxes.anyReady) this.#runSoon();
    else this.#draining.check();
  }

  /** Releases the effects of a stored batch. @param lost actors of which nothing was stored; their effects are withdrawn */
  #release(batch: Batch, lost: readonly ActorAddress[]): void {
    for (const address of lost) {
      const cell = this.#find(address);
      if (cell === undefined) continue;
      this.#withdraw(cell, 'actor_moved');
      this.#lifecycle.lose(cell);
    }
    const moved = lost.length === 0 ? null : new Set(lost.map(addressText));
    for (const [cell, events] of batch.events) {
      if (moved?.has(addressText(cell.self))) this.#withdraw(cell, 'actor_moved');
      else {
        cell.undurable -= events;
        this.#gate.open(cell, batch.ticket);
      }
      this.#lifecycle.settle(cell);
    }
  }

  /** Withdraws effects that depend on events that could not be stored. Their actors return to their stored state. */
  #takeBack(batch: Batch, error: Error): void {
    const isAway = error instanceof JournalUnavailableError;
    for (const cell of batch.events.keys()) {
      this.#withdraw(cell, 'storage_unavailable');
      if (cell.status !== 'ready') this.#lifecycle.settle(cell);
      else if (isAway) this.#lifecycle.lose(cell);
      else this.#lifecycle.fail(cell, 'commit', error);
    }
  }

  #withdraw(cell: Cell, code: 'storage_unavailable' | 'actor_moved'): void {
    cell.undurable = 0;
    cell.gate_ticket = 0;
    cell.write_ticket = 0;
    this.#gate.withdrawAll(cell, code);
  }

  // ---- other owners ----

  #lose(addresses: readonly ActorAddress[]): void {
    for (const address of addresses) {
      const cell = this.#find(address);
      if (cell !== undefined) this.#lifecycle.lose(cell);
    }
    this.#run();
  }

  #find({ kind, key }: ActorAddress): Cell | undefined {
    return this.#kinds.get(kind)?.cells.get(key);
  }
}
