/**
 * Passivation: actors that were not used for a while leave memory, also to make room for others. The state of a
 * persistent actor stays in the journal, that of any other actor is lost. Actor threads, server threads (and the
 * simulator).
 */

import { describeFailure, type HostReport } from '../host-report.ts';
import type { Scheduler } from '../scheduler.ts';
import { type Cell, cancelTimers, isIdle, type Kind } from './cell.ts';
import type { HostJournal } from './host-journal.ts';
import type { Tenure } from './tenure.ts';

/** Maximum number of actors that one sweep checks. */
const SWEEP_CELLS = 2_000;
/**
 * Maximum number of actors that one sweep passivates, and the pause after a sweep that reaches this number. The actors'
 * snapshots are one commit, which blocks the thread.
 */
const SWEEP_PASSIVATIONS = 32;
const SWEEP_PAUSE_MS = 20;
/** Bounds of the interval between sweeps, which is half of the shortest `idle_after_ms`. */
const SWEEP_EVERY_MS = { least: 10, most: 1000 };
/**
 * Maximum number of actors that are checked to make room for another, and maximum number of idle actors among them. So
 * few are enough, because the least recently used of them has usually been idle for a long time.
 */
const ROOM_CELLS = 256;
const ROOM_IDLE_CELLS = 16;

/** The functions of the host that passivation needs. */
interface PassivationParts {
  kinds: ReadonlyMap<string, Kind>;
  journal: HostJournal;
  scheduler: Scheduler;
  tenure: Tenure;
  report(report: HostReport): void;
}

/** Passivates the idle actors of one host. */
export class Passivation {
  readonly #parts: PassivationParts;
  readonly #sweepEveryMs: number;
  #cancelSweep: (() => void) | null = null;
  #sweepCursor: Iterator<Cell> | null = null;
  #closed = false;

  constructor(parts: PassivationParts) {
    this.#parts = parts;
    let shortestIdle = Number.POSITIVE_INFINITY;
    for (const { policy } of parts.kinds.values()) {
      shortestIdle = Math.min(shortestIdle, policy.idle_after_ms);
    }
    this.#sweepEveryMs = Math.max(SWEEP_EVERY_MS.least, Math.min(SWEEP_EVERY_MS.most, shortestIdle / 2));
  }

  close(): void {
    this.#closed = true;
    this.#cancelSweep?.();
  }

  /**
   * Passivates the least recently used one of some idle actors. Each call checks the next few actors.
   * @returns false if no idle actor was found among them
   */
  makeRoom(kind: Kind): boolean {
    let best: Cell | null = null;
    let wrapped = false;
    let idle = 0;
    for (let looked = 0; looked < ROOM_CELLS && idle < ROOM_IDLE_CELLS; looked++) {
      kind.room_cursor ??= kind.cells.values();
      const next = kind.room_cursor.next();
      if (next.done) {
        kind.room_cursor = null;
        if (wrapped) break;
        wrapped = true;
        continue;
      }
      const cell = next.value;
      if (!isIdle(cell)) continue;
      idle++;
      if (best === null || cell.touched_at_ms < best.touched_at_ms) best = cell;
    }
    if (best === null) return false;
    this.#passivate(best);
    return true;
  }

  /**
   * Drops the timers of all actors, because the host ends, and passivates the actors that then have no work. Takes no
   * snapshots, because the process would have to wait for the snapshots of up to 100,000 actors. The next start of an
   * actor reads the events since its last snapshot instead.
   */
  passivateAll(): void {
    for (const kind of this.#parts.kinds.values()) {
      for (const cell of [...kind.cells.values()]) {
        cancelTimers(cell);
        if (isIdle(cell)) this.#forget(cell);
      }
    }
  }

  #passivate(cell: Cell): void {
    if (cell.events_since_snapshot > 0) {
      try {
        this.#parts.journal.stageSnapshot(cell);
      } catch (thrown) {
        // Without the snapshot, only the actor's next start takes longer, because all of its events are stored.
        cell.kind.stats.errors++;
        this.#parts.report(describeFailure(cell.self, 'snapshot', thrown, 'lost'));
      }
    }
    this.#forget(cell);
  }

  #forget(cell: Cell): void {
    cell.status = 'gone';
    cell.kind.cells.delete(cell.self.key);
    this.#parts.journal.leave(cell);
    this.#parts.tenure.end(cell.self);
    cell.kind.stats.passivations++;
  }

  /** Schedules a search for idle actors, and repeats it while there are actors. */
  scheduleSweep(delayMs = this.#sweepEveryMs): void {
    if (this.#cancelSweep !== null || this.#closed) return;
    this.#cancelSweep = this.#parts.scheduler.later(delayMs, () => this.#sweep());
  }

  /** Checks the next actors, and passivates a few of those that have been idle long enough, so that no tick is long. */
  #sweep(): void {
    this.#cancelSweep = null;
    const nowMs = this.#parts.scheduler.monotonicMs();
    this.#sweepCursor ??= this.#allCells();
    let passivated = 0;
    for (let i = 0; i < SWEEP_CELLS; i++) {
      if (passivated === SWEEP_PASSIVATIONS) return this.scheduleSweep(SWEEP_PAUSE_MS);
      const next = this.#sweepCursor.next();
      if (next.done) {
        this.#sweepCursor = null;
        break;
      }
      const cell = next.value;
      if (nowMs - cell.touched_at_ms < cell.kind.policy.idle_after_ms || !isIdle(cell)) continue;
      this.#passivate(cell);
      passivated++;
    }
    for (const kind of this.#parts.kinds.values()) {
      if (kind.cells.size > 0) return this.scheduleSweep();
    }
  }

  *#allCells(): Generator<Cell> {
    for (const kind of this.#parts.kinds.values()) yield* kind.cells.values();
  }
}
