/**
 * Interface for entries in the shared database with which boxes divide the rates of keys: one for each key whose rate
 * is not divided equally. A box replaces an entry only if it has read the last version. Entries are not synced to the
 * disk. Implementations: ../postgres/live.ts and, for tests, ../memory/live.ts. Types; any thread.
 */

/** An entry that has changed. */
export interface StoredRate {
  /** Digest of the key, 48 bits. */
  key: number;
  version: number;
  /** JSON; null: the entry was removed. */
  data: string | null;
}

export interface RatesDelta {
  /** Changes when the database has lost all entries, and their versions start again. */
  epoch: string;
  /** The last version. */
  version: number;
  changed: StoredRate[];
}

/** A new value of an entry. */
export interface RateWrite {
  /** As in {@link StoredRate}. */
  key: number;
  /** Version of the known entry; 0: no entry is known. */
  base: number;
  /** JSON; null: remove the entry. */
  data: string | null;
}

export interface RatesSession {
  /** Reads the entries with versions after the given one. @throws TruthUnavailableError */
  readRates(after: number): Promise<RatesDelta>;
  /**
   * Writes each entry, unless the database has another epoch, the stored entry has another version than `base`, the
   * entry is new and there are too many, or the entry to remove does not exist.
   * @returns the new versions in the same order; null: not written
   * @throws TruthUnavailableError: the entries may or may not be written
   */
  writeRates(epoch: string, writes: readonly RateWrite[]): Promise<(number | null)[]>;
}
