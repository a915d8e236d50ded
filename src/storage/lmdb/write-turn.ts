/**
 * Whether a thread of the process is writing promised commits to a database. LMDB has one writer at a time, and a thread that asks
 * for its lock sleeps until the lock is free, with all its requests. Promised commits can wait, so their thread looks here first.
 * This is only a hint; the lock is LMDB's. Wherever actors run.
 */
const FREE = 0;

export class WriteTurn {
  readonly #word: Int32Array;
  readonly #own: number;

  /**
   * @param memory from {@link WriteTurn.allocate}, shared by the threads that write to the same database
   * @param host number of this thread's host, from 0; no two threads have the same
   */
  constructor(memory: SharedArrayBuffer, host: number) {
    this.#word = new Int32Array(memory);
    this.#own = host + 1;
  }

  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  }

  /** Whether another thread has the turn. */
  get isTaken(): boolean {
    const holder = Atomics.load(this.#word, 0);
    return holder !== FREE && holder !== this.#own;
  }

  /** Takes the turn, even from a thread that has it: that thread has ended, or is about to give it back. */
  take(): void {
    Atomics.store(this.#word, 0, this.#own);
  }

  /** Gives the turn back, unless another thread has taken it since. */
  giveBack(): void {
    Atomics.compareExchange(this.#word, 0, this.#own, FREE);
  }
}
