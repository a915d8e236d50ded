/**
 * Signals to all server threads that a user may have changed something, which invalidates their caches for that user.
 * Users share a fixed number of counters. A collision only causes another look-up. Any thread.
 */
import { hash } from 'node:crypto';

const COUNTERS = 1_024;

export class UserEpochs {
  readonly #counters: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.#counters = new Int32Array(memory);
  }

  /** Allocates the memory for {@link UserEpochs}, which all threads share. */
  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(COUNTERS * Int32Array.BYTES_PER_ELEMENT);
  }

  /**
   * Returns the user's counter. Each signalled change of this user, or of a user with the same counter, increases the
   * counter.
   */
  of(user_id: string): number {
    return Atomics.load(this.#counters, slotOf(user_id));
  }

  /** Signals a change. Call it when the change is durable, before the change is acknowledged. */
  bump(user_id: string): void {
    Atomics.add(this.#counters, slotOf(user_id), 1);
  }

  /** Signals changes of all users. Call it when other boxes changed something of users. */
  bumpAll(): void {
    for (let slot = 0; slot < COUNTERS; slot++) Atomics.add(this.#counters, slot, 1);
  }
}

function slotOf(user_id: string): number {
  return hash('sha1', user_id, 'buffer').readUInt32LE(0) % COUNTERS;
}
