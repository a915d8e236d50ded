/**
 * The slots of moving kinds (claims.ts) that belong to this host. The host releases a slot when none of its actors is
 * in memory and everything that they recorded is visible to other threads. Actor threads, server threads (and the
 * simulator).
 */

import type { Placer } from '../placer.ts';
import { type ActorAddress, type Placement, spreadAddress } from '../protocol.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Kind } from './cell.ts';
import type { HostJournal } from './host-journal.ts';

/**
 * Interval of the checks for empty slots. A slot is released at the earliest at the second check that finds the slot
 * empty, so that the next owner reads only after all writes are visible.
 */
export const RELEASE_EVERY_MS = 500;

/** The functions of the host that `Tenure` needs. */
interface TenureParts {
  placement: Placement;
  placer: Placer;
  kinds: ReadonlyMap<string, Kind>;
  journal: HostJournal;
  scheduler: Scheduler;
  release_every_ms: number;
}

/** Counts the actors in memory for each slot of one host, and releases empty slots. */
export class Tenure {
  readonly #parts: TenureParts;
  /** Number of actors in memory, by slot. */
  readonly #living = new Map<number, number>();
  /** First host of the group, from which owners are counted. */
  #first = 0;
  /** Empty slots whose records may not be visible yet. */
  #empty = new Set<number>();
  /** Empty slots whose records are all visible. */
  #readable = new Set<number>();
  #cancel: (() => void) | null = null;
  #closed = false;

  constructor(parts: TenureParts) {
    this.#parts = parts;
  }

  /** Records that an actor is loaded into memory. */
  begin(to: ActorAddress): void {
    const { placement, placer } = this.#parts;
    if (!placer.isMoving(to.kind)) return;
    this.#first = spreadAddress(placement, to).first;
    const slot = placer.slotOf(to);
    this.#living.set(slot, (this.#living.get(slot) ?? 0) + 1);
    this.#empty.delete(slot);
    this.#readable.delete(slot);
  }

  /** Records that an actor leaves memory. */
  end(to: ActorAddress): void {
    const { placer } = this.#parts;
    if (!placer.isMoving(to.kind)) return;
    const slot = placer.slotOf(to);
    const left = this.#living.get(slot)! - 1;
    if (left > 0) {
      this.#living.set(slot, left);
      return;
    }
    this.#living.delete(slot);
    this.#empty.add(slot);
    this.#lookLater();
  }

  close(): void {
    this.#closed = true;
    this.#cancel?.();
  }

  #lookLater(): void {
    if (this.#closed) return;
    const { scheduler, release_every_ms } = this.#parts;
    this.#cancel ??= scheduler.later(release_every_ms, () => this.#look());
  }

  #look(): void {
    this.#cancel = null;
    const { placer, journal } = this.#parts;
    const stopped = this.#stoppedSlots();
    for (const slot of this.#readable) {
      if (stopped.has(slot)) continue;
      // A slot with a message in transit will be used again, and becomes empty again later.
      if (placer.release(slot, this.#first)) this.#readable.delete(slot);
    }
    if (!journal.pending && journal.settle()) {
      for (const slot of this.#empty) this.#readable.add(slot);
      this.#empty.clear();
    }
    if (this.#empty.size + this.#readable.size > 0) this.#lookLater();
  }

  /**
   * Slots with stopped actors. They are not released, because other hosts do not know that an actor stays stopped for a
   * while.
   */
  #stoppedSlots(): Set<number> {
    const { placer, kinds, scheduler } = this.#parts;
    const nowMs = scheduler.monotonicMs();
    const slots = new Set<number>();
    for (const { name, stopped } of kinds.values()) {
      if (!placer.isMoving(name)) continue;
      for (const [key, untilMs] of stopped)
        if (untilMs > nowMs) slots.add(placer.slotOf({ kind: name, key }));
    }
    return slots;
  }
}
