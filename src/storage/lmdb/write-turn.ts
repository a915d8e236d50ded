/**
 * Whether one of the process's threads is bringing promised commits to a database. LMDB has one writer at a time, and whoever asks for
 * the lock sleeps until it is free: all the requests of that thread wait, too, and longer where the holder waits for a core.
 * What is promised can wait, so its thread looks here first. Only a hint: the lock is LMDB's. Wherever actors run.
 */
const NOBODY = 0;

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
    return holder !== NOBODY && holder !== this.#own;
  }

  /** Takes the turn, also from a thread that has it: that one has ended, or is as good as done. */
  take(): void {
    Atomics.store(this.#word, 0, this.#own);
  }

  /** Gives the turn back, unless another thread has taken it since. */
  giveBack(): void {
    Atomics.compareExchange(this.#word, 0, this.#own, NOBODY);
  }
}
