/**
 * Locks by name that all threads of the process share: one of a fixed number of words of memory each, shared with other names, so
 * that at worst a thread waits for an unrelated name. A thread that ends while it holds one loses it after `HOLD_MAX_S`. Any thread.
 */
import { hash } from 'node:crypto';

const WORDS = 1_024;
/** A lock that was taken longer ago is free: its thread has ended. */
const HOLD_MAX_S = 60;

export class SharedLocks {
  readonly #words: Int32Array;
  readonly #nowMs: () => number;

  /** @param nowMs the wall clock, which all threads read alike */
  constructor(memory: SharedArrayBuffer, nowMs: () => number = Date.now) {
    this.#words = new Int32Array(memory);
    this.#nowMs = nowMs;
  }

  /** Memory for {@link SharedLocks}, to be shared by all threads. */
  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT);
  }

  /**
   * Does the work while no other thread holds the name.
   * @param wait_ms longest wait for others
   * @returns what the work gives; null when others held the name for that long, and the work was not done
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
      // Not if another thread has taken the lock over.
      if (Atomics.compareExchange(this.#words, word, stamp, 0) === stamp)
        Atomics.notify(this.#words, word, 1);
    }
  }

  /** @returns what stands in the word from now on; null when the time is over */
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

/** Seconds of the clock, never 0, which means free. */
function toStamp(now_ms: number): number {
  return (Math.floor(now_ms / 1_000) % 0x7fff_ffff) + 1;
}
