/**
 * Measures how fast exchanges arrive. From this the log decides whether to compress blocks at once. Capture process.
 */

/**
 * At this rate of exchanges or of bytes of bodies, or above it, full blocks are stored raw and packed later, because
 * otherwise the queue might overflow. Below it, compressing an exchange at once (hurried, about 0.1 ms) takes no more
 * time than storing it raw and packing it later.
 */
const PRESSED_RATE = 1_000;
const PRESSED_BYTE_RATE = 32 << 20;
/** A batch with more bytes is stored raw, too, because an append must be short. */
const PRESSED_BYTES = 8 << 20;

/** Measures rates with counts that decay exponentially: after a second, 1/e remains. */
export class LoadMeter {
  readonly #pressedRate: number;
  /** Exchanges and bytes of bodies per second, as of `#at`. */
  #rate = 0;
  #byteRate = 0;
  #at = 0;

  /** @param pressedRate exchanges per second from which there is no time to compress; tests set it */
  constructor(pressedRate: number = PRESSED_RATE) {
    this.#pressedRate = pressedRate;
  }

  /**
   * Counts a batch.
   * @param bytes total length of its bodies
   * @returns whether there is no time to compress the batch
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
