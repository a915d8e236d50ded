/**
 * A map of bounded size that drops old entries in bulk: it consists of two plain maps, of which the older one is
 * dropped whenever the younger one reaches half the bound. For many small entries whose exact age does not matter: an
 * entry takes no memory beyond its place in a Map. Entries of different sizes have weights. Any thread.
 */
export class RecentMap<K, V> {
  readonly #half: number;
  #young = new Map<K, V>();
  #old = new Map<K, V>();
  /** Total weight in the younger map. */
  #weight = 0;

  /**
   * @param max maximum number of entries, or maximum weight; the most recent half of that is always kept. An entry that
   *   is heavier than half of it is kept, too, so the map may then exceed `max`
   */
  constructor(max: number) {
    this.#half = Math.max(1, max >>> 1);
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: K): V | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  /**
   * Returns the value of a recently set entry; undefined for any other key. To keep an entry that only `get` finds, set
   * it again.
   */
  getRecent(key: K): V | undefined {
    return this.#young.get(key);
  }

  /**
   * Adds or replaces an entry.
   * @param weight of a new entry; a replaced entry keeps its weight
   */
  set(key: K, value: V, weight = 1): void {
    this.#old.delete(key);
    if (!this.#young.has(key)) {
      if (this.#weight + weight > this.#half && this.#weight > 0) {
        this.#old = this.#young;
        this.#young = new Map();
        this.#weight = 0;
      }
      this.#weight += weight;
    }
    this.#young.set(key, value);
  }

  /** Deletes an entry. The weight of the entry still counts in the younger map, until that becomes the older one. */
  delete(key: K): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  /** Yields the keys of all entries. Entries whose keys were returned may be deleted meanwhile. */
  *keys(): Generator<K> {
    yield* this.#old.keys();
    yield* this.#young.keys();
  }

  clear(): void {
    this.#young.clear();
    this.#old.clear();
    this.#weight = 0;
  }
}
