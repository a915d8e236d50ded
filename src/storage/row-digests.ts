/** Counts and digests of rows by table, with which a copy is compared with its original. Pure; any thread. */
import { createHash, type Hash } from 'node:crypto';
import type { StoredRow } from './shared/truth.ts';

export interface TableDigest {
  rows: number;
  /** Digest of keys and values with their lengths, in the order of the keys. */
  sha256: string;
}

export class RowDigests {
  readonly #tables = new Map<string, { rows: number; hash: Hash }>();

  /** Adds rows; skips those without a value. @param rows of each table in the order of its keys */
  add(rows: readonly StoredRow[]): void {
    for (const { table, key, value } of rows) {
      if (value === null) continue;
      const known = this.#tables.get(table) ?? { rows: 0, hash: createHash('sha256') };
      this.#tables.set(table, known);
      known.rows++;
      const lengths = Buffer.allocUnsafe(8);
      lengths.writeUInt32BE(key.length, 0);
      lengths.writeUInt32BE(value.length, 4);
      known.hash.update(lengths).update(key).update(value);
    }
  }

  /** Completes the digests. No rows can be added afterwards. */
  read(): Map<string, TableDigest> {
    return new Map(
      [...this.#tables]
        .sort()
        .map(([table, { rows, hash }]) => [table, { rows, sha256: hash.digest('hex') }]),
    );
  }
}

/** Finds the first table whose rows differ; null if all are equal. */
export function findDifference(
  a: ReadonlyMap<string, TableDigest>,
  b: ReadonlyMap<string, TableDigest>,
): string | null {
  for (const table of new Set([...a.keys(), ...b.keys()]))
    if (a.get(table)?.sha256 !== b.get(table)?.sha256) return table;
  return null;
}
