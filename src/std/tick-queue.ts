/**
 * Work that comes in bursts, one piece a tick of the loop in the order in which it came: what the first one answers is
 * sent, and what has arrived meanwhile is heard, before the next one begins. Nobody is refused: what waits is bounded by
 * whoever lets calls in. Any thread.
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
