/**
 * Runs work that comes in bursts, one piece a tick or a few, in the order in which it came. So the loop sends the first answer and reads
 * what has arrived before the next piece begins. It refuses nothing: its callers bound what waits. Any thread.
 */

export class TickQueue {
  readonly #waiting: (() => void)[] = [];
  readonly #turns: number;
  /** Who has had this tick. */
  #taken = 0;

  /** @param turns pieces a tick */
  constructor(turns = 1) {
    this.#turns = turns;
  }

  /** Resolves when it is the caller's turn: at once when this one has a turn left. */
  next(): Promise<void> {
    if (this.#taken === this.#turns) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#take();
    return Promise.resolve();
  }

  #take(): void {
    this.#taken++;
    if (this.#taken > 1) return;
    // What the one whose turn it is leaves for the end of it stands behind the first of the two.
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
