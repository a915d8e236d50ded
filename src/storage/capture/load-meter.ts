/**
 * Measures how fast exchanges arrive, and what share of the time storing takes. From this the log decides whether to
 * compress blocks at once and whether to index at once. Capture process.
 */

/**
 * From this many exchanges or bytes of bodies per second on, full blocks are stored raw and packed later. Below it,
 * compressing an exchange at once (hurried, about 0.1 ms) costs no more than storing it raw and packing it later, so
 * postponing has no use: a constant load leaves no later time. Above it, the queue might overflow.
 */
const PRESSED_RATE = 1_000;
const PRESSED_BYTE_RATE = 32 << 20;
/** A batch with more bytes is stored raw, too, because an append must be short. */
const PRESSED_BYTES = 8 << 20;

/**
 * If storing takes at least this share of the time, new exchanges are indexed later. At a low rate they are still
 * indexed at once: indexing costs about a millisecond each, and a single write that the disk delays is not load.
 */
const BUSY_SHARE = 0.5;
const BUSY_RATE = 50;

/** Exponentially decaying counts: after a second, 1/e remains. */
export class LoadMeter {
  readonly #pressedRate: number;
  /** Exchanges and bytes of bodies per second, as of `#at`. */
  #rate = 0;
  #byteRate = 0;
  #at = 0;
  /** Milliseconds of the last second that storing took, as of `#workAt`. */
  #work = 0;
  #workAt = 0;

  /**
   * @param pressedRate for tests: exchanges per second from which there is no time to compress
   */
  constructor(pressedRate: number = PRESSED_RATE) {
    this.#pressedRate = pressedRate;
  }

  /**
   * Counts a batch.
   * @param bytes of its bodies
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

  /** Records how long storing a batch took. */
  noteWork(ms: number): void {
    const now = performance.now();
    this.#work = this.#work * Math.exp((this.#workAt - now) / 1_000) + ms;
    this.#workAt = now;
  }

  /** Whether storing takes so much time that other work must wait for it. */
  get isBusy(): boolean {
    const now = performance.now();
    if (this.#rate * Math.exp((this.#at - now) / 1_000) < BUSY_RATE) return false;
    return this.#work * Math.exp((this.#workAt - now) / 1_000) >= BUSY_SHARE * 1_000;
  }
}
