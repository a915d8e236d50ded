/**
 * What the threads of a box know of its store thread, in memory that all of them share: the thread that they send
 * commits to, the position that the view shows, and how old it may be. Any thread; the store thread writes it.
 */

/** Names the store thread's part of a box. Plain data, which threads receive. */
export interface StoreSeat {
  /** Identifies the database whose rows the view shows. */
  identity: string;
  state: SharedArrayBuffer;
}

const THREAD = 0;
const POSITION = 1;
const CURRENT_AT = 2;
const FIELDS = 3;
const NO_THREAD = -1n;
const NANOSECONDS = 1_000_000n;

/** Reads and writes a seat's memory. */
export class SeatState {
  readonly #fields: BigInt64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#fields = new BigInt64Array(memory);
  }

  /** Memory for {@link SeatState}, to be shared by all threads. */
  static allocate(): SharedArrayBuffer {
    const memory = new SharedArrayBuffer(FIELDS * BigInt64Array.BYTES_PER_ELEMENT);
    new BigInt64Array(memory)[THREAD] = NO_THREAD;
    return memory;
  }

  /** Id of the store thread; null: it does not run now. */
  get thread(): number | null {
    const id = Atomics.load(this.#fields, THREAD);
    return id === NO_THREAD ? null : Number(id);
  }

  set thread(id: number | null) {
    Atomics.store(this.#fields, THREAD, id === null ? NO_THREAD : BigInt(id));
  }

  /** Position that the view shows. */
  get position(): number {
    return Number(Atomics.load(this.#fields, POSITION));
  }

  set position(position: number) {
    Atomics.store(this.#fields, POSITION, BigInt(position));
  }

  /** How old the view may be, in milliseconds. */
  get stale_ms(): number {
    return Number((process.hrtime.bigint() - Atomics.load(this.#fields, CURRENT_AT)) / NANOSECONDS);
  }

  /** The view had everything that was committed this long ago. */
  noteStale(milliseconds: number): void {
    if (!Number.isFinite(milliseconds)) return;
    const age = BigInt(Math.round(milliseconds)) * NANOSECONDS;
    Atomics.store(this.#fields, CURRENT_AT, process.hrtime.bigint() - age);
  }
}
