/**
 * A log of ids whose content changed. Each reader remembers its position in the log. Any thread. The log keeps at least
 * the last CHANGED_IDS changes, and less than twice as many. A reader that is further behind must read everything
 * again.
 */

const CHANGED_IDS = 8_192;

export class ChangedIds<Id = string> {
  #ids: Id[] = [];
  #begin = 0;

  /** The position after the last change. */
  get end(): number {
    return this.#begin + this.#ids.length;
  }

  add(id: Id): void {
    this.#ids.push(id);
    if (this.#ids.length < 2 * CHANGED_IDS) return;
    this.#ids = this.#ids.slice(CHANGED_IDS);
    this.#begin += CHANGED_IDS;
  }

  /** Records that everything may have changed, so that every reader reads everything again. */
  addAll(): void {
    // All former positions are now before the beginning of the log.
    this.#begin = this.end + 1;
    this.#ids = [];
  }

  /**
   * Lists the changes since a position, which must be a value that `end` has or had.
   * @returns null if they are no longer known
   */
  since(position: number): readonly Id[] | null {
    return position < this.#begin ? null : this.#ids.slice(position - this.#begin);
  }
}
