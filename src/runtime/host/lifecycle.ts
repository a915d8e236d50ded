/**
 * The lifecycle of a host's actors: they start with the first message, restart from their stored state after a
 * failure, and are stopped if they fail too often. Actor threads, server threads (and the simulator).
 */

import { type ErrorData, runtimeError } from '../error.ts';
import { describeFailure, type HostReport } from '../host-report.ts';
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

const MAX_STOPPED_KEPT = 10_000;

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

/** Starts, restarts and stops the actors of one host. */
export class Lifecycle {
  readonly #parts: LifecycleParts;

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
  }

  /** Creates the actor; null: that is impossible, and the message has been discarded. */
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
    if (!this.#start(cell)) {
      lost.discard(to, delivery, 'actor_stopped', 'actor_stopped');
      return null;
    }
    passivation.scheduleSweep();
    return cell;
  }

  /** Loads the state and runs `activated`. If that fails, stops the actor and returns false. */
  #start(cell: Cell): boolean {
    const { stats } = cell.kind;
    try {
      this.#parts.journal.load(cell);
      cell.status = 'ready';
      stats.activations++;
      this.#parts.dispatch.takeFirst(cell);
      return true;
    } catch (thrown) {
      stats.errors++;
      this.#stop(cell);
      this.#report(cell, 'activate', thrown, 'stop');
      return false;
    }
  }

  /**
   * Handles an actor's failure: it restarts from its stored state after a delay, or is stopped if it failed too
   * often.
   */
  fail(cell: Cell, during: string, thrown: unknown): void {
    const { gate, mailboxes, scheduler } = this.#parts;
    const { policy, stats } = cell.kind;
    stats.errors++;
    cell.life++;
    cancelTimers(cell);
    mailboxes.dropInternal(cell);
    for (const to of cell.replies.values()) {
      gate.emit(cell, { type: 'error', to, error: restartedError(cell.self), name: during });
    }
    cell.replies.clear();
    const backoffMs = recordFailure(policy.restart, cell.history, scheduler.monotonicMs());
    if (backoffMs === null) {
      this.#stop(cell);
      this.#report(cell, during, thrown, 'stop');
      return;
    }
    cell.status = 'restarting';
    cell.restart_due = false;
    this.#report(cell, during, thrown, 'restart');
    const { life } = cell;
    scheduler.later(backoffMs, () => {
      if (cell.status !== 'restarting' || cell.life !== life || mailboxes.closed) return;
      cell.restart_due = true;
      this.#restartIfDurable(cell);
      mailboxes.resume(cell);
    });
  }

  /** To be called when all commits with records of the actor are decided. */
  settle(cell: Cell): void {
    if (cell.undurable > 0) return;
    const { kind, self } = cell;
    if (cell.status === 'restarting') this.#restartIfDurable(cell);
    else if (cell.status === 'ready') this.#parts.mailboxes.schedule(cell);
    else if (kind.stopped.get(self.key) === Number.POSITIVE_INFINITY) {
      kind.stopped.set(self.key, this.#stoppedUntil(kind));
    }
  }

  /** Restarts the actor if all commits of its events are decided. Only then its stored state is complete. */
  #restartIfDurable(cell: Cell): void {
    if (!cell.restart_due || cell.undurable > 0) return;
    cell.restart_due = false;
    cell.kind.stats.restarts++;
    if (this.#start(cell)) this.#parts.mailboxes.schedule(cell);
  }

  /**
   * Stops the actor; its waiting messages become dead letters. Effects that wait for the journal are still released.
   */
  #stop(cell: Cell): void {
    const { mailboxes } = this.#parts;
    const { kind } = cell;
    cell.status = 'gone';
    cell.life++;
    cancelTimers(cell);
    mailboxes.dropInternal(cell);
    kind.cells.delete(cell.self.key);
    this.#parts.tenure.end(cell.self);
    if (kind.stopped.size >= MAX_STOPPED_KEPT) kind.stopped.delete(kind.stopped.keys().next().value!);
    // The actor must not start from storage while its events are still being written.
    kind.stopped.set(cell.self.key, cell.undurable > 0 ? Number.POSITIVE_INFINITY : this.#stoppedUntil(kind));
    mailboxes.refuseAll(cell);
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
