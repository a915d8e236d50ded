/**
 * Numbers the requests of runs from 1 without gaps, across all threads of the process: the counters are in shared
 * memory. The number of a request that was never sent is given to the run's next request. Any thread. The table has
 * 2,048 sets of 8 places. The key of a run determines its set. If all 8 places are taken, a new run replaces the least
 * recently used run, whose numbers begin at 1 again if it continues. 4,096 concurrent runs almost certainly fit.
 */

const WAYS = 8;
const SETS = 2_048;
const SLOTS = SETS * WAYS;
const BYTES = SLOTS * 16 + (SETS + 1) * 4;

/**
 * A terminated thread never releases its lock, so another thread takes the lock after this time. A thread that holds
 * the lock and waits for a core takes less time.
 */
const LOCK_WAIT_MS = 1_000;

/**
 * Maximum numbers of runs with returned numbers, and of returned numbers per run. If either is
 * exceeded, the numbers of a run have a gap.
 */
const RETURNED_RUNS_MAX = 1_000;
const RETURNED_NUMBERS_MAX = 1_000;

export class RunNumbers {
  readonly #keys: BigInt64Array;
  readonly #counters: Int32Array;
  readonly #used: Int32Array;
  /** One lock per set, followed by the clock. */
  readonly #locks: Int32Array;
  /** Returned numbers of requests of this thread, by the key of the run. */
  readonly #returned = new Map<bigint, number[]>();

  /** Memory for `new RunNumbers`, which can be shared with other threads. */
  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(BYTES);
  }

  /** @param memory from `allocate`, which any thread may have called */
  constructor(memory: SharedArrayBuffer) {
    this.#keys = new BigInt64Array(memory, 0, SLOTS);
    this.#counters = new Int32Array(memory, SLOTS * 8, SLOTS);
    this.#used = new Int32Array(memory, SLOTS * 12, SLOTS);
    this.#locks = new Int32Array(memory, SLOTS * 16, SETS + 1);
  }

  /**
   * Takes the number of a run's next request: the smallest number that this thread gave back, otherwise a new one.
   * @param key the key of the run, not 0
   */
  take(key: bigint): number {
    const returned = this.#returned.get(key);
    if (returned !== undefined) {
      const number = Math.min(...returned);
      returned.splice(returned.indexOf(number), 1);
      if (returned.length === 0) this.#returned.delete(key);
      return number;
    }
    const first = Number(BigInt.asUintN(32, key) % BigInt(SETS)) * WAYS;
    const slot = this.#find(key, first) ?? this.#claim(key, first);
    Atomics.store(this.#used, slot, Atomics.add(this.#locks, SETS, 1) + 1);
    return Atomics.add(this.#counters, slot, 1) + 1;
  }

  /** Returns a number that was taken in this thread but not sent with a request. */
  giveBack(key: bigint, number: number): void {
    const returned = this.#returned.get(key);
    if (returned !== undefined) {
      if (returned.length < RETURNED_NUMBERS_MAX) returned.push(number);
      return;
    }
    if (this.#returned.size >= RETURNED_RUNS_MAX) {
      const [oldest] = this.#returned.keys();
      this.#returned.delete(oldest!);
    }
    this.#returned.set(key, [number]);
  }

  #find(key: bigint, first: number): number | undefined {
    for (let slot = first; slot < first + WAYS; slot++)
      if (Atomics.load(this.#keys, slot) === key) return slot;
    return undefined;
  }

  /** Finds a place for a run that has no place. */
  #claim(key: bigint, first: number): number {
    const lock = first / WAYS;
    const deadline = performance.now() + LOCK_WAIT_MS;
    while (Atomics.compareExchange(this.#locks, lock, 0, 1) !== 0) {
      const left = deadline - performance.now();
      if (left <= 0) break;
      Atomics.wait(this.#locks, lock, 1, left);
    }
    try {
      const found = this.#find(key, first);
      if (found !== undefined) return found;
      const now = Atomics.load(this.#locks, SETS);
      let victim = first;
      let longest = -1;
      for (let slot = first; slot < first + WAYS; slot++) {
        const isFree = Atomics.load(this.#keys, slot) === 0n;
        // `>>> 0` makes the age correct after an overflow of the clock.
        const age = isFree ? Number.POSITIVE_INFINITY : (now - Atomics.load(this.#used, slot)) >>> 0;
        if (age > longest) [victim, longest] = [slot, age];
      }
      Atomics.store(this.#used, victim, now);
      Atomics.store(this.#counters, victim, 0);
      Atomics.store(this.#keys, victim, key);
      return victim;
    } finally {
      Atomics.store(this.#locks, lock, 0);
      Atomics.notify(this.#locks, lock);
    }
  }
}
