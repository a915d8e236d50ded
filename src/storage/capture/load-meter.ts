/**
 * How fast exchanges come, and how much of the time goes into storing them. By this the log decides whether their blocks are
 * compressed at once, and whether the index reads them at once. Capture process.
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

/** From this part of the time on that goes into storing, the index does not read what is stored at once. */
const BUSY_SHARE = 0.5;

/** Counts of which all but 1/e is forgotten in a second. */
export class LoadMeter {
  readonly #pressedRate: number;
  /** Exchanges and bytes of bodies a second as of `#at`. */
  #rate = 0;
  #byteRate = 0;
  #at = 0;
  /** Milliseconds of the latest second that went into storing, as of `#workAt`. */
  #work = 0;
  #workAt = 0;

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

  /** Storing a batch took so long. */
  noteWork(ms: number): void {
    const now = performance.now();
    this.#work = this.#work * Math.exp((this.#workAt - now) / 1_000) + ms;
    this.#workAt = now;
  }

  /** Storing takes so much of the time that nothing else should be done before what comes is stored. */
  get isBusy(): boolean {
    const kept = Math.exp((this.#workAt - performance.now()) / 1_000);
    return this.#work * kept >= BUSY_SHARE * 1_000;
  }
}
