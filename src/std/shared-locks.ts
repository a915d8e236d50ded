/**
 * Named locks that all threads of the process share. There is a fixed number of memory words, which names share, so a
 * thread may at worst wait for an unrelated name. A lock that is held for longer than `HOLD_MAX_S` counts as free,
 * because a thread may end while it holds a lock. Any thread.
 */
import { hash } from 'node:crypto';

const WORDS = 1_024;
/** A lock that was taken longer ago counts as free, whether or not its thread has ended. */
const HOLD_MAX_S = 60;

export class SharedLocks {
  readonly #words: Int32Array;
  readonly #nowMs: () => number;

  /**
   * @param nowMs the wall clock, which is the same in all threads
   */
  constructor(memory: SharedArrayBuffer, nowMs: () => number = Date.now) {
    this.#words = new Int32Array(memory);
    this.#nowMs = nowMs;
  }

  /** Allocates memory for {@link SharedLocks}, to be shared by all threads. */
  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT);
  }

  /**
   * Runs the work while no other thread holds the name. The work must take less than `HOLD_MAX_S`.
   * @param wait_ms longest wait for other threads
   * @returns the result of the work; null if the wait was too long, and the work was not run
   */
  async hold<Value extends object>(
    name: string,
    wait_ms: number,
    work: () => Promise<Value>,
  ): Promise<Value | null> {
    const word = hash('sha1', name, 'buffer').readUInt32LE(0) % WORDS;
    const stamp = await this.#take(word, this.#nowMs() + wait_ms);
    if (stamp === null) return null;
    try {
      return await work();
    } finally {
      // Does nothing if another thread has taken the lock over.
      if (Atomics.compareExchange(this.#words, word, stamp, 0) === stamp)
        Atomics.notify(this.#words, word, 1);
    }
  }

  /** Takes a lock. @returns the value that the word has from now on; null if the time is over */
  async #take(word: number, until_ms: number): Promise<number | null> {
    for (;;) {
      const now_ms = this.#nowMs();
      const stamp = toStamp(now_ms);
      const held = Atomics.compareExchange(this.#words, word, 0, stamp);
      if (held === 0) return stamp;
      const isLost = Math.abs(stamp - held) > HOLD_MAX_S;
      if (isLost && Atomics.compareExchange(this.#words, word, held, stamp) === held) return stamp;
      if (now_ms >= until_ms) return null;
      const waiting = Atomics.waitAsync(this.#words, word, held, until_ms - now_ms);
      if (waiting.async) await waiting.value;
    }
  }
}

/** Converts a time to seconds; never returns 0, which means free. */
function toStamp(now_ms: number): number {
  return (Math.floor(now_ms / 1_000) % 0x7fff_ffff) + 1;
}
