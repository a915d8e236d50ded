/**
 * Tells all threads of the process that some credential was revoked: each forgets what it remembers of credentials
 * and looks again. Revoking is rare, so one counter for all of them is enough. Any thread.
 */
export class Revocations {
  readonly #count: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.#count = new Int32Array(memory);
  }

  /** Memory for {@link Revocations}, to be shared by all threads. */
  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  }

  /** Changes with every revocation. */
  get epoch(): number {
    return Atomics.load(this.#count, 0);
  }

  /** To be called when a revocation is durable, before it is acknowledged. */
  announce(): void {
    Atomics.add(this.#count, 0, 1);
  }
}
