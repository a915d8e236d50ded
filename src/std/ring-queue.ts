/**
 * A first-in first-out queue in a ring of slots: no shifting, no garbage in steady state, and always a bound.
 * Any thread.
 */

const INITIAL_SLOTS = 2;
/** The slots of a queue that was never used, which many are. */
const NO_SLOTS: undefined[] = [];

/** Holds up to `capacity` items; memory grows with use (doubling) and never past the capacity's power of two. */
export class RingQueue<T> {
  readonly capacity: number;
  #slots: (T | undefined)[] = NO_SLOTS;
  #head = 0;
  #size = 0;

  /** @param capacity the most items it takes, a whole number ≥ 1 */
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

  /** Appends `item`; false, and nothing changed, when the queue is full. */
  push(item: T): boolean {
    if (this.#size >= this.capacity) return false;
    if (this.#size === this.#slots.length) this.#grow();
    this.#slots[(this.#head + this.#size) & (this.#slots.length - 1)] = item;
    this.#size++;
    return true;
  }

  /** Takes the oldest item; undefined when empty. */
  shift(): T | undefined {
    if (this.#size === 0) return undefined;
    const item = this.#slots[this.#head];
    this.#slots[this.#head] = undefined; // release it: the slot may stay unused for long
    this.#head = (this.#head + 1) & (this.#slots.length - 1);
    this.#size--;
    return item;
  }

  /** The oldest item, left in place; undefined when empty. */
  peek(): T | undefined {
    return this.#size === 0 ? undefined : this.#slots[this.#head];
  }

  /** All items, oldest first, as a new array; the queue is unchanged. */
  toArray(): T[] {
    const items: T[] = [];
    for (let i = 0; i < this.#size; i++)
      items.push(this.#slots[(this.#head + i) & (this.#slots.length - 1)] as T);
    return items;
  }

  /** Forgets everything. */
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
