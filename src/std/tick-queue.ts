/**
 * Runs work that arrives in bursts, one or a few pieces per tick, in order. So the event loop sends the first answer
 * and reads new input before the next piece begins. It never refuses: callers bound the waiting work. Any thread.
 */

export class TickQueue {
  readonly #waiting: (() => void)[] = [];
  readonly #turns: number;
  /** Turns given in this tick. */
  #taken = 0;

  /** @param turns pieces per tick */
  constructor(turns = 1) {
    this.#turns = turns;
  }

  /** Resolves when it is the caller's turn; at once if this tick has a turn left. */
  next(): Promise<void> {
    if (this.#taken === this.#turns) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#take();
    return Promise.resolve();
  }

  #take(): void {
    this.#taken++;
    if (this.#taken > 1) return;
    // Two immediates: work that a caller schedules for the end of its turn runs after the first of them.
    setImmediate(() => setImmediate(() => this.#pass()));
  }

  #pass(): void {
    this.#taken = 0;
    for (const resolve of this.#waiting.splice(0, this.#turns)) {
      this.#take();
      resolve();
    }
  }
}
