/**
 * Whether a thread of the process is writing acknowledged commits to a database. LMDB allows one writer at a time,
 * and a thread that requests its lock blocks, with all its requests, until the lock is free. Acknowledged commits can
 * wait, so their thread checks here first. This is only a hint; LMDB has the real lock. Wherever actors run.
 */
const FREE = 0;

export class WriteTurn {
  readonly #word: Int32Array;
  readonly #own: number;

  /**
   * @param memory from {@link WriteTurn.allocate}, shared by the threads that write to the same database
   * @param host number of this thread's host, from 0, different for each thread
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

  /** Takes the turn, even from another thread, which has ended or is about to release it. */
  take(): void {
    Atomics.store(this.#word, 0, this.#own);
  }

  /** Releases the turn, unless another thread has taken it since. */
  giveBack(): void {
    Atomics.compareExchange(this.#word, 0, this.#own, FREE);
  }
}
