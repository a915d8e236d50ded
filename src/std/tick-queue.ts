/**
 * Runs work that comes in bursts, one piece a tick, in the order in which it came. So the loop sends the first answer and reads
 * what has arrived before the next piece begins. It refuses nothing: its callers bound what waits. Any thread.
 */

export class TickQueue {
  readonly #waiting: (() => void)[] = [];
  /** Somebody has had this tick. */
  #isTaken = false;

  /** Resolves when it is the caller's turn: at once when nobody has had this one. */
  next(): Promise<void> {
    if (this.#isTaken) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#take();
    return Promise.resolve();
  }

  #take(): void {
    this.#isTaken = true;
    // What the one whose turn it is leaves for the end of it stands behind the first of the two.
    setImmediate(() => setImmediate(() => this.#pass()));
  }

  #pass(): void {
    this.#isTaken = false;
    const resolve = this.#waiting.shift();
    if (resolve === undefined) return;
    this.#take();
    resolve();
  }
}
