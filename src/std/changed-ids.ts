/**
 * A log of ids whose content changed, for readers that each follow it at their own pace. Any thread.
 * Bound: the last CHANGED_IDS changes; a reader that is further behind must read everything again.
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

  /** Everything may have changed. */
  addAll(): void {
    // No position before this one is in the log any more.
    this.#begin = this.end + 1;
    this.#ids = [];
  }

  /**
   * The changes since a position, which was once the end.
   * @returns null if they are no longer known
   */
  since(position: number): readonly Id[] | null {
    return position < this.#begin ? null : this.#ids.slice(position - this.#begin);
  }
}
