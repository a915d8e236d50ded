/**
 * A map of a bounded size that forgets what was set long ago, all at once: two plain maps, of which the older one is
 * dropped whenever the younger one is half the bound. For many small entries whose exact age does not matter; one
 * entry costs nothing beyond its place in a Map. Where entries are of many sizes each has a weight. Any thread.
 */
export class RecentMap<K, V> {
  readonly #half: number;
  #young = new Map<K, V>();
  #old = new Map<K, V>();
  /** Of all that was set in the younger one. */
  #weight = 0;

  /** @param max most entries, or their weight; at least the last half of that is kept */
  constructor(max: number) {
    this.#half = Math.max(1, max >>> 1);
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: K): V | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  /** Only what was set lately; to set again what `get` alone finds is to keep it for longer. */
  getRecent(key: K): V | undefined {
    return this.#young.get(key);
  }

  /** @param weight of a new entry; one that weighs more than half the bound takes the place of all younger ones */
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

  /** Its weight counts on in the younger one, until that is the older one. */
  delete(key: K): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  clear(): void {
    this.#young.clear();
    this.#old.clear();
    this.#weight = 0;
  }
}
