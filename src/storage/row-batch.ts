/** Rows that wait to be written to a table in one transaction. Command line, capture process. */
import type { Database, RootDatabase } from 'lmdb';
import type { ValueTable } from './lmdb/sealed-table.ts';

/** A batch is written when it has this many rows or bytes. */
const BATCH_ROWS = 1_000;
const BATCH_BYTES = 4 << 20;

export class RowBatch<K extends Buffer | number> {
  // biome-ignore lint/suspicious/noExplicitAny: files have keys of several kinds
  readonly #root: RootDatabase<Buffer, any>;
  readonly #table: ValueTable<K> | Database<Buffer, K>;
  #rows: { key: K; value: Buffer }[] = [];
  #bytes = 0;

  // biome-ignore lint/suspicious/noExplicitAny: as above
  constructor(root: RootDatabase<Buffer, any>, table: ValueTable<K> | Database<Buffer, K>) {
    this.#root = root;
    this.#table = table;
  }

  get isFull(): boolean {
    return this.#rows.length >= BATCH_ROWS || this.#bytes >= BATCH_BYTES;
  }

  /** Adds a row. @returns whether the batch is full, so that it should be written now */
  add(key: K, value: Buffer): boolean {
    this.#rows.push({ key, value });
    this.#bytes += value.length;
    return this.isFull;
  }

  /** Writes the rows in one transaction, and empties the batch. @returns the number of bytes of the values */
  write(): number {
    const bytes = this.#bytes;
    if (this.#rows.length === 0) return 0;
    this.#root.transactionSync(() => {
      for (const { key, value } of this.#rows) this.#table.putSync(key, value);
    });
    this.#rows = [];
    this.#bytes = 0;
    return bytes;
  }
}
