/**
 * A table of short-lived items, found by number. A Map would rehash frequently under such use, and each abandoned
 * table keeps its items alive until the old generation is collected. Here slots are reused. Any thread.
 */

/** Maximum number of items in the table at once. */
const PLACES = 2 ** 20;
/** After this many items, a number may be used again. */
const SERIALS = 2 ** 32;

/** Memory grows with the largest number of items at once, which callers must bound. */
export class SlotTable<T> {
  readonly #items: (T | undefined)[] = [];
  /** Number of the item in each slot; 0 for a free slot. */
  readonly #numbers: number[] = [];
  readonly #free: number[] = [];
  #serial = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /**
   * Adds an item.
   * @returns the item's number, ≥ 1; unique among the last four billion items
   * @throws RangeError if the table has a million items
   */
  add(item: T): number {
    if (this.#size >= PLACES) throw new RangeError(`more than ${PLACES} items`);
    const place = this.#free.pop() ?? this.#items.length;
    this.#serial = (this.#serial + 1) % SERIALS;
    const number = (this.#serial + 1) * PLACES + place;
    this.#items[place] = item;
    this.#numbers[place] = number;
    this.#size++;
    return number;
  }

  /** Removes and returns the item; undefined if no item has this number. */
  take(number: number): T | undefined {
    const place = number % PLACES;
    if (number === 0 || this.#numbers[place] !== number) return undefined;
    const item = this.#items[place];
    this.#items[place] = undefined;
    this.#numbers[place] = 0;
    this.#free.push(place);
    this.#size--;
    return item;
  }

  /** Yields the present items, in any order. An item may be removed when it is reached. */
  *entries(): Generator<[number: number, item: T]> {
    for (let place = 0; place < this.#items.length; place++) {
      const number = this.#numbers[place]!;
      if (number !== 0) yield [number, this.#items[place] as T];
    }
  }
}
