/**
 * Numbers the requests of runs, from 1, without a hole, over all threads of the process: the counters lie in memory that
 * they share. A number whose request never left is given to the run's next one. Any thread.
 *
 * A table of 8 places for each of 2,048 remainders of the run's key. A run that finds its 8 taken gets the least recently
 * used one; if that place's run comes back, it begins again at 1. 4,096 runs at once have room with near certainty.
 */

const WAYS = 8;
const SETS = 2_048;
const SLOTS = SETS * WAYS;
const BYTES = SLOTS * 16 + (SETS + 1) * 4;

/** A thread that was terminated keeps its lock: after this time another one takes it. A thread that waits for a core needs less. */
const LOCK_WAIT_MS = 1_000;

/** Runs that have numbers to give out again, and numbers of one; beyond that a run keeps a hole. */
const RETURNED_RUNS_MAX = 1_000;
const RETURNED_NUMBERS_MAX = 1_000;

export class RunNumbers {
  readonly #keys: BigInt64Array;
  readonly #counters: Int32Array;
  readonly #used: Int32Array;
  /** One for each set, and the clock behind them. */
  readonly #locks: Int32Array;
  /** Of this thread's own requests. */
  readonly #returned = new Map<bigint, number[]>();

  /** Memory for `new RunNumbers`, to be handed to other threads. */
  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(BYTES);
  }

  /** @param memory as allocated, by whichever thread */
  constructor(memory: SharedArrayBuffer) {
    this.#keys = new BigInt64Array(memory, 0, SLOTS);
    this.#counters = new Int32Array(memory, SLOTS * 8, SLOTS);
    this.#used = new Int32Array(memory, SLOTS * 12, SLOTS);
    this.#locks = new Int32Array(memory, SLOTS * 16, SETS + 1);
  }

  /**
   * @param key of the run, anything but 0
   * @returns the number of its next request
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

  /** Gives back a number that was taken in this thread and that no request carried away. */
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

  /** The place for a run that has none. */
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
        // The clock may have gone round.
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
