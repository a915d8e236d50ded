/**
 * Signals to all server threads that a user changed something, which invalidates their caches for that user. Users
 * share a fixed number of counters. A collision only causes another look-up. Any thread.
 */
import { hash } from 'node:crypto';

const COUNTERS = 1_024;

export class UserEpochs {
  readonly #counters: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.#counters = new Int32Array(memory);
  }

  /** Memory for {@link UserEpochs}, to be shared by all threads. */
  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(COUNTERS * Int32Array.BYTES_PER_ELEMENT);
  }

  /** Changes with every change that the user makes. */
  of(user_id: string): number {
    return Atomics.load(this.#counters, slotOf(user_id));
  }

  /** To be called when the change is durable, before it is acknowledged. */
  bump(user_id: string): void {
    Atomics.add(this.#counters, slotOf(user_id), 1);
  }

  /** To be called when other boxes changed something of users. */
  bumpAll(): void {
    for (let slot = 0; slot < COUNTERS; slot++) Atomics.add(this.#counters, slot, 1);
  }
}

function slotOf(user_id: string): number {
  return hash('sha1', user_id, 'buffer').readUInt32LE(0) % COUNTERS;
}
