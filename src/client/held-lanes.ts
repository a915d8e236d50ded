/**
 * Runs whose start or end is held back. A start waits for an integration that names the framework. An end waits for the
 * rest of a stream that began in the run. Timers bound the waits; they do not keep the process alive. Any thread.
 */
import { startTimer, stopTimer, type Timer } from './own-context.ts';
import type { RunLane } from './run-lane.ts';

/** Maximum number of runs that wait at the same time. Further runs do not wait. */
const HELD_MAX = 1_000;

export class HeldLanes {
  readonly #timers = new Map<RunLane, Timer>();
  readonly #release: (lane: RunLane) => void;

  /** @param release called when a wait ends, for any reason */
  constructor(release: (lane: RunLane) => void) {
    this.#release = release;
  }

  get isEmpty(): boolean {
    return this.#timers.size === 0;
  }

  /** Holds back a part of the run. @returns false if too many runs are waiting; then this run does not wait */
  hold(lane: RunLane, part: 'start' | 'end', waitMs: number): boolean {
    if (this.#timers.size >= HELD_MAX) return false;
    lane.held = part;
    this.#timers.set(
      lane,
      startTimer(() => this.release(lane), waitMs),
    );
    return true;
  }

  /** Restarts the wait. */
  renew(lane: RunLane): void {
    this.#timers.get(lane)?.refresh();
  }

  /** Ends the wait of the run, if it waits. */
  release(lane: RunLane): void {
    const timer = this.#timers.get(lane);
    if (timer === undefined) return;
    stopTimer(timer);
    this.#timers.delete(lane);
    lane.held = null;
    this.#release(lane);
  }

  /** Ends the waits of all runs whose held part is in `parts`. */
  releaseAll(parts: readonly ('start' | 'end')[]): void {
    for (const lane of [...this.#timers.keys()]) if (parts.includes(lane.held!)) this.release(lane);
  }
}
