/**
 * The highest position that a client has seen in answers of a service with several boxes. For KEPT_MS after the answer,
 * the client sends the position with each request, so that another box waits until it has the same changes. A service
 * with one box sends no position. Any thread.
 */

const NAME = 'x-svc-position';
/**
 * Time after which the position is dropped. By then, all boxes have reached the position, or the database was restored
 * to an earlier position.
 */
const KEPT_MS = 60_000;

export class SeenPosition {
  #position = 0;
  #seenAt = 0;

  /** Headers of the next request. */
  get headers(): Record<string, string> {
    if (this.#position > 0 && performance.now() - this.#seenAt > KEPT_MS) this.#position = 0;
    return this.#position === 0 ? {} : { [NAME]: String(this.#position) };
  }

  /**
   * Notes the position of an answer. A lower position than the known one is ignored.
   * @param told the header of the answer
   */
  note(told: string | string[] | null | undefined): void {
    if (typeof told !== 'string' || !/^\d{1,15}$/.test(told) || Number(told) < this.#position) return;
    this.#position = Number(told);
    this.#seenAt = performance.now();
  }
}
