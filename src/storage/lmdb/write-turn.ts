/**
 * Shared memory that says which thread of the process is writing acknowledged commits to a database. LMDB allows one
 * writer at a time, and a thread that waits for its lock is blocked. Acknowledged commits can wait, so their thread
 * first checks in this memory whether another one writes. This is only a hint; LMDB has the real lock. Any thread with
 * actors.
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

  /**
   * Takes the turn, even if another thread has it. That thread may have ended without releasing the turn. If it is
   * still writing, LMDB's own lock separates the two writers.
   */
  take(): void {
    Atomics.store(this.#word, 0, this.#own);
  }

  /** Releases the turn, unless another thread has taken it in the meantime. */
  giveBack(): void {
    Atomics.compareExchange(this.#word, 0, this.#own, FREE);
  }
}
