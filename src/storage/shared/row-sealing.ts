/**
 * Encrypts the values of shared rows with the data key before they leave the box. Table and key are not encrypted, but
 * authenticated together with the database's identity, so a value can be decrypted only in its own row. Any thread.
 */
import { type DataKey, SealError, type Sealer } from '../../std/data-key.ts';
import { type StoredRow, TruthRefusedError } from './truth.ts';

export class RowSealing {
  readonly #sealer: Sealer | null;
  readonly #identity: string;

  /** @param key null: values stay as they are */
  constructor(key: DataKey | null, identity: string) {
    this.#sealer = key?.sealer('shared rows') ?? null;
    this.#identity = identity;
  }

  /** Encrypts the value of a row. @returns the value to store in the database; null for a removed row */
  seal(row: StoredRow): Buffer | null {
    if (this.#sealer === null || row.value === null) return row.value;
    return this.#sealer.seal(row.value, this.#placeOf(row));
  }

  /**
   * Decrypts the value of a row. @throws TruthRefusedError if no box with this data key stored the value in this row
   */
  open(row: StoredRow): StoredRow {
    if (this.#sealer === null || row.value === null) return row;
    try {
      return { ...row, value: this.#sealer.open(row.value, this.#placeOf(row)) };
    } catch (thrown) {
      if (!(thrown instanceof SealError)) throw thrown;
      throw new TruthRefusedError(
        `a row of ${row.table} in the database is damaged, or under another data key`,
        {
          cause: thrown,
        },
      );
    }
  }

  #placeOf({ table, key }: StoredRow): Buffer {
    return Buffer.concat([Buffer.from(`${this.#identity}\0${table}\0`), key]);
  }
}
