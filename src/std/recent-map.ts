/**
 * A map of a bounded size that forgets what was set long ago, all at once: two plain maps, of which the older one is
 * dropped whenever the younger one is half the bound. For many small entries whose exact age does not matter; one
 * entry costs nothing beyond its place in a Map. Any thread.
 */
export class RecentMap<K, V> {
  readonly #half: number;
  #young = new Map<K, V>();
  #old = new Map<K, V>();

  /** @param max most entries; at least the last half of them are kept */
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

  set(key: K, value: V): void {
    this.#old.delete(key);
    if (this.#young.size >= this.#half && !this.#young.has(key)) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }

  clear(): void {
    this.#young.clear();
    this.#old.clear();
  }
}
