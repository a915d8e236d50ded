/**
 * Counts the notices of rows that other boxes changed, and which of them the threads with indexes in memory have applied.
 * A request with a position waits for both: the view shows the rows before an index knows them. One thread of a box has it.
 * Any thread.
 */
import type { SeatState } from './seat.ts';

export class ChangeNotices<Follower> {
  readonly #state: SeatState;
  /** The last notice that each follower has applied, with all before it. */
  readonly #applied = new Map<Follower, number>();
  readonly #waiting = new Set<() => void>();

  constructor(state: SeatState) {
    this.#state = state;
  }

  /** A new follower reads rows that are there already. */
  add(follower: Follower): void {
    this.#applied.set(follower, this.#state.changes);
  }

  remove(follower: Follower): void {
    if (this.#applied.delete(follower)) this.#settle();
  }

  /** @returns number of the next notice; send it to all followers before the view's position is told */
  next(): number {
    this.#state.changes += 1;
    this.#settle();
    return this.#state.changes;
  }

  note(follower: Follower, applied: number): void {
    if (!this.#applied.has(follower)) return;
    this.#applied.set(follower, applied);
    this.#settle();
  }

  /** Waits until all followers have applied all present notices. @returns false if they do not within the time */
  whenApplied(within_ms: number): Promise<boolean> {
    const until = this.#state.changes;
    if (this.#state.applied >= until) return Promise.resolve(true);
    return new Promise((resolve) => {
      const end = (isApplied: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve(isApplied);
      };
      const look = (): void => {
        if (this.#state.applied >= until) end(true);
      };
      const timer = setTimeout(() => end(false), Math.max(0, within_ms));
      this.#waiting.add(look);
    });
  }

  #settle(): void {
    this.#state.applied = Math.min(this.#state.changes, ...this.#applied.values());
    for (const look of [...this.#waiting]) look();
  }
}
