/**
 * A map in the order of last use that finds its oldest entry at once. A plain Map cannot do that after deletions at its
 * beginning, because its iterators visit the place of each deleted entry. To delete the oldest of some thousand entries
 * then takes tens of microseconds each time. Any thread.
 */

interface Entry<K, V> {
  key: K;
  value: V;
  older: Entry<K, V> | null;
  newer: Entry<K, V> | null;
}

export class LinkedMap<K, V> {
  readonly #entries = new Map<K, Entry<K, V>>();
  #oldest: Entry<K, V> | null = null;
  #newest: Entry<K, V> | null = null;

  get size(): number {
    return this.#entries.size;
  }

  /** The value that was used least recently; undefined when the map is empty. */
  get oldest(): V | undefined {
    return this.#oldest?.value;
  }

  /** Returns the value of a key, undefined without one. Does not count as use. */
  peek(key: K): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Returns the value of a key, undefined without one. Counts as use. */
  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry !== this.#newest) {
      this.#unlink(entry);
      this.#append(entry);
    }
    return entry.value;
  }

  /** Adds or replaces a value. Counts as use. */
  set(key: K, value: V): void {
    const known = this.#entries.get(key);
    if (known !== undefined) this.#unlink(known);
    const entry = known ?? { key, value, older: null, newer: null };
    entry.value = value;
    if (known === undefined) this.#entries.set(key, entry);
    this.#append(entry);
  }

  /** Deletes an entry. @returns whether the map had the key */
  delete(key: K): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    this.#entries.delete(key);
    this.#unlink(entry);
    return true;
  }

  /** Returns the keys, in no particular order. The entry of a returned key may be deleted meanwhile. */
  keys(): IterableIterator<K> {
    return this.#entries.keys();
  }

  clear(): void {
    this.#entries.clear();
    this.#oldest = null;
    this.#newest = null;
  }

  #append(entry: Entry<K, V>): void {
    entry.older = this.#newest;
    entry.newer = null;
    if (this.#newest === null) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
  }

  #unlink(entry: Entry<K, V>): void {
    if (entry.older === null) this.#oldest = entry.newer;
    else entry.older.newer = entry.newer;
    if (entry.newer === null) this.#newest = entry.older;
    else entry.newer.older = entry.older;
  }
}
