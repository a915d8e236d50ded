/**
 * Stamps exchanges in the order in which their requests arrive. All server threads of a process share one counter in
 * shared memory, so stamps of all threads can be compared. A request that was sent after another request was answered
 * has the larger stamp. Server threads.
 *
 * The counter starts at the wall clock's milliseconds times 1,024, so a process continues above the stamps of its
 * predecessor, unless the predecessor counted more than a million requests per second, or the wall clock was set back
 * in the meantime. Stamps stay exact doubles until the year 2248.
 */

/** Stamps for each millisecond of the wall clock. */
const STAMPS_PER_MS = 1_024n;

/** Allocates the memory that the counters of all server threads share. */
export function allocateArrivals(): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT);
  new BigInt64Array(memory)[0] = BigInt(Date.now()) * STAMPS_PER_MS;
  return memory;
}

export class ArrivalCounter {
  readonly #cell: BigInt64Array;

  /** @param memory from {@link allocateArrivals} */
  constructor(memory: SharedArrayBuffer = allocateArrivals()) {
    this.#cell = new BigInt64Array(memory);
  }

  /** Returns a stamp above all stamps that any thread of this process has received. */
  next(): number {
    return Number(Atomics.add(this.#cell, 0, 1n));
  }
}
