/**
 * The mailboxes of a host's actors, with their overflow rules, and the queue of ready actors. Actor threads, server
 * threads (and the simulator).
 */

import { RingQueue } from '../../std/ring-queue.ts';
import { type Cell, type Delivery, isOverfull, NO_BODIES, toldDelivery, UNBOUNDED } from './cell.ts';
import type { Undelivered } from './undelivered.ts';

/** The mailboxes of all actors of one host. */
export class Mailboxes {
  readonly #lost: Undelivered;
  readonly #wake: () => void;
  readonly #ready = new RingQueue<Cell>(UNBOUNDED);
  #waiting = 0;
  #closed = false;

  /**
   * @param wake handles ready actors, unless that is already running
   */
  constructor(lost: Undelivered, wake: () => void) {
    this.#lost = lost;
    this.#wake = wake;
  }

  /** Waiting messages, including internal ones. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Whether the host has ended, so that no message is handled any more. */
  get closed(): boolean {
    return this.#closed;
  }

  get anyReady(): boolean {
    return this.#ready.size > 0;
  }

  close(): void {
    this.#closed = true;
  }

  /**
   * Adds the message to the mailbox. If the mailbox is full, applies the kind's overflow rule. Refuses an ask if the
   * actor keeps too many answers for later.
   */
  accept(cell: Cell, delivery: Delivery): void {
    const { policy, stats } = cell.kind;
    if (delivery.reply_to !== null && cell.replies.size >= policy.max_held_replies) {
      return this.#lost.discard(cell.self, delivery, 'mailbox_full', 'mailbox_full');
    }
    if (isOverfull(cell, delivery)) {
      if (policy.overflow === 'reject')
        return this.#lost.discard(cell.self, delivery, 'mailbox_full', 'mailbox_full');
      if (policy.overflow === 'drop_newest') {
        return this.#lost.discard(cell.self, delivery, 'dropped', 'message_dropped');
      }
      while (isOverfull(cell, delivery)) {
        this.#lost.discard(cell.self, this.#take(cell)!, 'dropped', 'message_dropped');
      }
    }
    cell.mailbox.push(delivery);
    cell.mailbox_bytes += delivery.body_bytes;
    stats.mailbox_depth++;
    this.#waiting++;
    this.schedule(cell);
  }

  /** Adds a message from the actor's own host: a timer or an outcome. It is handled as soon as possible. */
  acceptInternal(cell: Cell, name: string, payload: unknown): void {
    if (this.#closed) return;
    const delivery = toldDelivery(name, payload, NO_BODIES);
    delivery.internal = true;
    cell.internal.push(delivery);
    this.#waiting++;
    this.resume(cell);
  }

  /** Drops the actor's own messages, which belong to an earlier life. */
  dropInternal(cell: Cell): void {
    this.#waiting -= cell.internal.size;
    cell.internal.clear();
  }

  /** Refuses all waiting messages of an actor that has stopped or could not be loaded. */
  refuseAll(cell: Cell, code: 'actor_stopped' | 'storage_unavailable'): void {
    for (let delivery = this.#take(cell); delivery !== undefined; delivery = this.#take(cell)) {
      this.#lost.discard(cell.self, delivery, code, code);
    }
  }

  /** Makes the actor ready if it has a message that it may handle. */
  schedule(cell: Cell): void {
    if (cell.queued || cell.status !== 'ready') return;
    if (cell.internal.size === 0 && !mayTake(cell)) return;
    cell.queued = true;
    this.#ready.push(cell);
  }

  /** Like `schedule`, for a change outside a dispatch. The message is handled now. */
  resume(cell: Cell): void {
    this.schedule(cell);
    this.#wake();
  }

  /** Removes and returns the actor that has been ready longest. */
  nextReady(): Cell | undefined {
    const cell = this.#ready.shift();
    if (cell !== undefined) cell.queued = false;
    return cell;
  }

  /**
   * Removes and returns the next message that the actor may handle; undefined without such a message. Outcomes and
   * timers come first, because they free resources that new messages need.
   */
  next(cell: Cell): Delivery | undefined {
    const internal = cell.internal.shift();
    if (internal !== undefined) {
      this.#waiting--;
      return internal;
    }
    return mayTake(cell) ? this.#take(cell) : undefined;
  }

  #take(cell: Cell): Delivery | undefined {
    const delivery = cell.mailbox.shift();
    if (delivery === undefined) return undefined;
    cell.mailbox_bytes -= delivery.body_bytes;
    cell.kind.stats.mailbox_depth--;
    this.#waiting--;
    return delivery;
  }
}

function mayTake(cell: Cell): boolean {
  const { policy } = cell.kind;
  return (
    cell.mailbox.size > 0 &&
    cell.io_in_flight < policy.max_io_in_flight &&
    cell.held.size < policy.max_held_effects &&
    cell.undurable < policy.max_held_effects
  );
}
