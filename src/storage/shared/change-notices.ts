/**
 * Counts the notices of rows that other boxes changed, and which of them the threads with indexes in memory have
 * applied. A request with a position waits for the view and for these threads, because an index gets the rows later
 * than the view. After a restart of the store thread, such a request waits until the followers of the former store
 * thread have connected again and have all rows, or count as ended. Any thread; only one thread of a box has an
 * instance.
 */
import type { SeatState } from './seat.ts';

/**
 * How long followers of the former store thread may take to connect again. A follower that has not connected by then
 * counts as ended.
 */
const BACK_MS = 10_000;

export class ChangeNotices<Follower> {
  readonly #state: SeatState;
  /** The last notice that each follower has applied, with all before it. */
  readonly #applied = new Map<Follower, number>();
  readonly #waiting = new Set<() => void>();
  /** Number of followers of the former store thread, until they have come back; then 0. */
  #expected: number;

  /** Create it before the view's position is published. @param back_ms after which missing followers count as ended */
  constructor(state: SeatState, back_ms = BACK_MS) {
    this.#state = state;
    this.#expected = state.followers;
    if (this.#expected === 0) return;
    // All notices that the former thread may not have sent count as one.
    state.changes += 1;
    setTimeout(() => {
      this.#expected = 0;
      this.#settle();
    }, back_ms).unref();
  }

  /**
   * Adds a follower.
   * @param isAgain whether the follower had another channel before, so that it may have missed changes; otherwise it
   *   has just read all rows
   */
  add(follower: Follower, isAgain = false): void {
    this.#applied.set(follower, isAgain ? 0 : this.#state.changes);
    if (this.#applied.size >= this.#expected) this.#expected = 0;
    this.#settle();
  }

  remove(follower: Follower): void {
    if (this.#applied.delete(follower)) this.#settle();
  }

  /** Counts a notice. @returns its number. Send the notice to all followers before the view's position is published. */
  next(): number {
    this.#state.changes += 1;
    this.#settle();
    return this.#state.changes;
  }

  /** Records that a follower has applied all notices up to a number. */
  note(follower: Follower, applied: number): void {
    if (!this.#applied.has(follower)) return;
    this.#applied.set(follower, applied);
    this.#settle();
  }

  /** Waits until all followers have applied all notices so far. @returns false on a timeout */
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
    this.#state.followers = Math.max(this.#expected, this.#applied.size);
    if (this.#expected > 0) return;
    this.#state.applied = Math.min(this.#state.changes, ...this.#applied.values());
    for (const look of [...this.#waiting]) look();
  }
}
