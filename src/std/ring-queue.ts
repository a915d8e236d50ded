/**
 * A bounded first-in first-out queue in a ring of slots. Items are moved, and memory is allocated, only when it grows.
 * Any thread.
 */

const INITIAL_SLOTS = 2;
/** The slots of a queue that was never used, which many are. */
const NO_SLOTS: undefined[] = [];

/** Holds up to `capacity` items; its memory doubles when needed, at most to the next power of two. */
export class RingQueue<T> {
  readonly capacity: number;
  #slots: (T | undefined)[] = NO_SLOTS;
  #head = 0;
  #size = 0;

  /** @param capacity maximum number of items, an integer ≥ 1 */
  constructor(capacity: number) {
    if (!Number.isInteger(capacity) || capacity < 1) throw new RangeError(`queue capacity ${capacity}`);
    this.capacity = capacity;
  }

  get size(): number {
    return this.#size;
  }

  get full(): boolean {
    return this.#size >= this.capacity;
  }

  /** Appends `item`. Returns false, and changes nothing, if the queue is full. */
  push(item: T): boolean {
    if (this.#size >= this.capacity) return false;
    if (this.#size === this.#slots.length) this.#grow();
    this.#slots[(this.#head + this.#size) & (this.#slots.length - 1)] = item;
    this.#size++;
    return true;
  }

  /** Removes and returns the oldest item; undefined if the queue is empty. */
  shift(): T | undefined {
    if (this.#size === 0) return undefined;
    const item = this.#slots[this.#head];
    this.#slots[this.#head] = undefined; // release it: the slot may stay unused for long
    this.#head = (this.#head + 1) & (this.#slots.length - 1);
    this.#size--;
    return item;
  }

  /** Returns the oldest item, which stays in the queue; undefined if the queue is empty. */
  peek(): T | undefined {
    return this.#size === 0 ? undefined : this.#slots[this.#head];
  }

  /** Copies all items to a new array, oldest first; the queue is unchanged. */
  toArray(): T[] {
    const items: T[] = [];
    for (let i = 0; i < this.#size; i++)
      items.push(this.#slots[(this.#head + i) & (this.#slots.length - 1)] as T);
    return items;
  }

  /** Removes all items. */
  clear(): void {
    this.#slots = NO_SLOTS;
    this.#head = 0;
    this.#size = 0;
  }

  #grow(): void {
    const slots: (T | undefined)[] = new Array(Math.max(INITIAL_SLOTS, this.#slots.length * 2));
    for (let i = 0; i < this.#size; i++) slots[i] = this.#slots[(this.#head + i) & (this.#slots.length - 1)];
    this.#slots = slots;
    this.#head = 0;
  }
}
