/**
 * How fast exchanges come, by which the log decides whether their blocks are compressed at once or put off. Capture
 * process.
 */

/**
 * From so many exchanges a second or bytes of bodies on, full blocks are stored raw and packed later. To compress an exchange
 * at once, hurried, takes no more than that does in all (about 0.1 ms), so below it nothing is put off: a load without a
 * pause has no later. Beyond it the queue might overflow.
 */
const PRESSED_RATE = 1_000;
const PRESSED_BYTE_RATE = 32 << 20;
/** So does a batch with more bytes: an append is short. */
const PRESSED_BYTES = 8 << 20;

/** Counts of which all but 1/e is forgotten in a second. */
export class LoadMeter {
  readonly #pressedRate: number;
  /** Exchanges and bytes of bodies a second as of `#at`. */
  #rate = 0;
  #byteRate = 0;
  #at = 0;

  /** @param pressedRate for tests: exchanges a second from which on there is no time to compress */
  constructor(pressedRate: number = PRESSED_RATE) {
    this.#pressedRate = pressedRate;
  }

  /**
   * Counts a batch.
   * @param bytes of its bodies
   * @returns whether there is no time to compress it
   */
  note(exchanges: number, bytes: number): boolean {
    const now = performance.now();
    const kept = Math.exp((this.#at - now) / 1_000);
    this.#rate = this.#rate * kept + exchanges;
    this.#byteRate = this.#byteRate * kept + bytes;
    this.#at = now;
    return this.#rate >= this.#pressedRate || this.#byteRate >= PRESSED_BYTE_RATE || bytes >= PRESSED_BYTES;
  }
}
