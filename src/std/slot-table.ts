/**
 * Items that come and go all the time, found by a number. A Map rehashes under such use, and each table it leaves behind
 * keeps its items alive until the old generation is collected. Here a slot is used again. Any thread.
 */

/** The most places that have a number. */
const PLACES = 2 ** 20;
/** So many items later a number may come again. */
const SERIALS = 2 ** 32;

/** Memory grows with the most items that were ever in it at once; its users bound that number. */
export class SlotTable<T> {
  readonly #items: (T | undefined)[] = [];
  /** Number of the item at each place; 0 for none. */
  readonly #numbers: number[] = [];
  readonly #free: number[] = [];
  #serial = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /**
   * @returns the item's number, ≥ 1; no other of the last four billion items has had it
   * @throws RangeError with a million items in it
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

  /** Takes the item out; undefined when none has this number. */
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

  /** Those that are there now, in no order; what is reached may be taken out meanwhile. */
  *entries(): Generator<[number: number, item: T]> {
    for (let place = 0; place < this.#items.length; place++) {
      const number = this.#numbers[place]!;
      if (number !== 0) yield [number, this.#items[place] as T];
    }
  }
}
