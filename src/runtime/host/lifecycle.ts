/**
 * The lifecycle of a host's actors: they start with the first message, restart from their stored state after a
 * failure, and are stopped if they fail too often. An actor that has another owner is loaded again, or leaves memory.
 * Actor threads, server threads (and the simulator).
 */

import { type ErrorData, type RuntimeErrorCode, runtimeError } from '../error.ts';
import { describeFailure, type HostReport } from '../host-report.ts';
import { JournalUnavailableError, type StoredActor } from '../journal.ts';
import { type ActorAddress, isValidKey } from '../protocol.ts';
import type { Scheduler } from '../scheduler.ts';
import { recordFailure } from '../supervision.ts';
import { type Cell, cancelTimers, createCell, type Delivery, type Kind } from './cell.ts';
import type { Dispatch } from './dispatch.ts';
import type { HostJournal } from './host-journal.ts';
import type { Mailboxes } from './mailboxes.ts';
import type { OutputGate } from './output-gate.ts';
import type { Passivation } from './passivation.ts';
import type { Tenure } from './tenure.ts';
import type { Undelivered } from './undelivered.ts';

/** Maximum number of stopped actors of a kind that a host remembers. Beyond it, the oldest one may start at once. */
const MAX_STOPPED_KEPT = 10_000;
/** Maximum time for reading an actor from the store. It is longer than the time for which stores retry. */
const LOAD_LIMIT_MS = 15_000;

/** The functions of the host that the lifecycle needs. */
interface LifecycleParts {
  journal: HostJournal;
  gate: OutputGate;
  dispatch: Dispatch;
  passivation: Passivation;
  mailboxes: Mailboxes;
  lost: Undelivered;
  scheduler: Scheduler;
  tenure: Tenure;
  report(report: HostReport): void;
}

/** Why an actor could not be started. */
type Refusal = Extract<RuntimeErrorCode, 'actor_stopped' | 'storage_unavailable'>;

/** Starts, restarts and stops the actors of one host. */
export class Lifecycle {
  readonly #parts: LifecycleParts;
  /** Actors that are loaded when their last writes have an outcome. */
  readonly #waiting = new Set<Cell>();

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
  }

  /** Creates the actor. @returns null if that is impossible, after the message was discarded */
  activate(kind: Kind, to: ActorAddress, delivery: Delivery): Cell | null {
    const { lost, passivation } = this.#parts;
    if (!isValidKey(to.key)) {
      lost.discard(to, delivery, 'bad_address', 'bad_address');
      return null;
    }
    const nowMs = this.#parts.scheduler.monotonicMs();
    const stoppedUntil = kind.stopped.get(to.key);
    if (stoppedUntil !== undefined) {
      if (stoppedUntil > nowMs) {
        lost.discard(to, delivery, 'actor_stopped', 'actor_stopped');
        return null;
      }
      kind.stopped.delete(to.key);
    }
    if (kind.cells.size >= kind.policy.max_live && !passivation.makeRoom(kind)) {
      lost.discard(to, delivery, 'too_many_actors', 'too_many_actors');
      return null;
    }
    const cell = createCell(kind, to, nowMs);
    kind.cells.set(to.key, cell);
    this.#parts.tenure.begin(to);
    const refusal = this.#start(cell);
    if (refusal !== null) {
      lost.discard(to, delivery, refusal, refusal);
      return null;
    }
    passivation.scheduleSweep();
    return cell;
  }

  /**
   * Loads the state and runs `activated`: at once, or when the actor's last writes have an outcome and the store has
   * read it.
   * @returns why the actor could not be started, after which it has left memory; null: it was started, or is loading
   */
  #start(cell: Cell): Refusal | null {
    const { journal } = this.#parts;
    if (journal.isWriting(cell)) {
      cell.status = 'loading';
      cell.load = 'waits';
      this.#waiting.add(cell);
      return null;
    }
    try {
      const stored = journal.read(cell);
      if (stored instanceof Promise) this.#awaitLoad(cell, stored);
      else this.#begin(cell, stored);
      return null;
    } catch (thrown) {
      return this.#giveUp(cell, thrown);
    }
  }

  /**
   * Restores the actor's state, and runs `activated`.
   * @throws if the history is damaged, or `activated` fails
   */
  #begin(cell: Cell, stored: StoredActor | null): void {
    this.#parts.journal.restore(cell, stored);
    cell.status = 'ready';
    cell.kind.stats.activations++;
    this.#parts.dispatch.takeFirst(cell);
  }

  /** Starts the actor when the store has read it, or gives up. Until then, messages wait in the mailbox. */
  #awaitLoad(cell: Cell, reading: Promise<StoredActor>): void {
    const { scheduler, mailboxes } = this.#parts;
    cell.status = 'loading';
    cell.load = 'runs';
    let isOver = false;
    const end = (start: () => void): void => {
      if (isOver) return;
      isOver = true;
      cancelLimit();
      if (mailboxes.closed) return;
      start();
      mailboxes.resume(cell);
    };
    const fail = (thrown: unknown): void => end(() => void this.#giveUp(cell, thrown));
    const cancelLimit = scheduler.later(LOAD_LIMIT_MS, () =>
      fail(new JournalUnavailableError(`not loaded within ${LOAD_LIMIT_MS} ms`)),
    );
    // In a separate tick, so that an exception goes where those of all other tasks go.
    reading.then(
      (stored) => scheduler.soon(() => end(() => this.#startFrom(cell, stored))),
      (thrown: unknown) => scheduler.soon(() => fail(thrown)),
    );
  }

  #startFrom(cell: Cell, stored: StoredActor): void {
    if (cell.load === 'stale') return this.#loadIfAsked(cell);
    try {
      this.#begin(cell, stored);
    } catch (thrown) {
      this.#giveUp(cell, thrown);
    }
  }

  /**
   * Handles an actor that could not be started. The actor is stopped; if the store could not be reached, it only leaves
   * memory. Its waiting messages are refused.
   */
  #giveUp(cell: Cell, thrown: unknown): Refusal {
    cell.kind.stats.errors++;
    if (thrown instanceof JournalUnavailableError) {
      this.#leave(cell);
      this.#parts.mailboxes.refuseAll(cell, 'storage_unavailable');
      return 'storage_unavailable';
    }
    this.#stop(cell);
    this.#report(cell, 'activate', thrown, 'stop');
    return 'actor_stopped';
  }

  /**
   * Handles the move of an actor to another process, after which its state here is out of date. When the actor's last
   * writes have an outcome, the actor is loaded again if messages wait for it, and otherwise leaves memory. The effects
   * of recorded events stay until the commit of these events is decided.
   */
  lose(cell: Cell): void {
    if (cell.status === 'loading' && cell.load === 'runs') cell.load = 'stale';
    // An actor that waits or restarts is loaded later anyway.
    if (cell.status !== 'ready') return;
    this.#endLife(cell, 'moved');
    // The failures are forgotten, as for an actor that leaves memory.
    cell.history = { failed_at_ms: [] };
    cell.status = 'loading';
    cell.load = 'moved';
    if (this.#parts.journal.isWriting(cell)) this.#waiting.add(cell);
    else this.#loadIfAsked(cell);
  }

  /** Loads the waiting actors whose last writes now have an outcome. To be called when a commit has an outcome. */
  loadWaiting(): void {
    for (const cell of this.#waiting) {
      if (this.#parts.journal.isWriting(cell)) continue;
      this.#waiting.delete(cell);
      if (cell.load === 'moved') this.#loadIfAsked(cell);
      else this.#startAndSchedule(cell);
    }
  }

  #startAndSchedule(cell: Cell): void {
    if (this.#start(cell) === null) this.#parts.mailboxes.schedule(cell);
  }

  #loadIfAsked(cell: Cell): void {
    if (cell.mailbox.size === 0) this.#leave(cell);
    else this.#startAndSchedule(cell);
  }

  /**
   * Handles an actor's failure: it restarts from its stored state after a delay, or is stopped if it failed too
   * often.
   */
  fail(cell: Cell, during: string, thrown: unknown): void {
    const { mailboxes, scheduler } = this.#parts;
    const { policy, stats } = cell.kind;
    stats.errors++;
    this.#endLife(cell, during);
    const backoffMs = recordFailure(policy.restart, cell.history, scheduler.monotonicMs());
    if (backoffMs === null) {
      this.#stop(cell);
      this.#report(cell, during, thrown, 'stop');
      return;
    }
    cell.status = 'restarting';
    this.#report(cell, during, thrown, 'restart');
    const { life } = cell;
    scheduler.later(backoffMs, () => {
      if (cell.status !== 'restarting' || cell.life !== life || mailboxes.closed) return;
      stats.restarts++;
      this.#startAndSchedule(cell);
      mailboxes.resume(cell);
    });
  }

  /** Drops timers and awaited outcomes, and answers the askers of kept answers with an error. */
  #endLife(cell: Cell, during: string): void {
    const { gate, mailboxes } = this.#parts;
    cell.life++;
    cancelTimers(cell);
    mailboxes.dropInternal(cell);
    for (const to of cell.replies.values()) {
      gate.emit(cell, { type: 'error', to, error: restartedError(cell.self), name: during, kept: true });
    }
    cell.replies.clear();
  }

  /**
   * Lets the actor go on if no commit with its records is left: a ready actor may handle messages, and for a stopped
   * actor, the time begins after which the actor may start. To be called when a commit with records of the actor has an
   * outcome.
   */
  settle(cell: Cell): void {
    if (cell.undurable > 0) return;
    const { kind, self } = cell;
    if (cell.status === 'ready') this.#parts.mailboxes.schedule(cell);
    else if (cell.status === 'gone' && kind.stopped.get(self.key) === Number.POSITIVE_INFINITY) {
      kind.stopped.set(self.key, this.#stoppedUntil(kind));
    }
  }

  /**
   * Stops the actor; its waiting messages are refused. Effects that wait for the journal are still released when their
   * commit succeeds.
   */
  #stop(cell: Cell): void {
    const { mailboxes } = this.#parts;
    const { kind } = cell;
    this.#leave(cell);
    if (kind.stopped.size >= MAX_STOPPED_KEPT) kind.stopped.delete(kind.stopped.keys().next().value!);
    // The actor must not start from storage while its events are still being written.
    kind.stopped.set(cell.self.key, cell.undurable > 0 ? Number.POSITIVE_INFINITY : this.#stoppedUntil(kind));
    mailboxes.refuseAll(cell, 'actor_stopped');
  }

  #leave(cell: Cell): void {
    cell.status = 'gone';
    cell.life++;
    cancelTimers(cell);
    this.#parts.mailboxes.dropInternal(cell);
    this.#waiting.delete(cell);
    cell.kind.cells.delete(cell.self.key);
    this.#parts.journal.leave(cell);
    this.#parts.tenure.end(cell.self);
  }

  #stoppedUntil(kind: Kind): number {
    return this.#parts.scheduler.monotonicMs() + kind.policy.stopped_for_ms;
  }

  #report(cell: Cell, during: string, thrown: unknown, outcome: HostReport['outcome']): void {
    this.#parts.report(describeFailure(cell.self, during, thrown, outcome));
  }
}

function restartedError(self: ActorAddress): ErrorData {
  return runtimeError('actor_restarted', `${self.kind}: started again before it answered`);
}
