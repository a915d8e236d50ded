/**
 * Tables of rows in the databases of DATA_DIR. Actors write rows that follow from their events; other rows are written
 * without an actor. Implementations: lmdb/tables.ts, shared/tables.ts and, for tests, memory/tables.ts. Any thread.
 * Values are plain data that msgpack can encode. Rows are sorted by their keys (row-key.ts).
 */
import type { RowKey, RowWrite } from '../runtime/protocol.ts';

export interface Row<Value = unknown> {
  row: (string | number)[];
  value: Value;
}

/** Which rows of a table. */
export interface RowRange {
  /** Only keys that begin with these parts. */
  prefix: RowKey;
  /** Only keys after this one (before it with `reverse`): the end of the previous page. */
  after?: RowKey;
  /** Greatest key first. */
  reverse?: boolean;
  /** Number of rows to skip without reading them. */
  offset?: number;
  limit?: number;
}

export interface TableReader {
  /** Reads a row; undefined when there is no such row. */
  get<Value = unknown>(table: string, row: RowKey): Value | undefined;
  /** Reads rows lazily, from a snapshot at the time when the iteration begins. */
  range<Value = unknown>(table: string, range: RowRange): Iterable<Row<Value>>;
}

/** Reads see the writes of the same transaction. */
export interface TableTransaction extends TableReader {
  write(write: RowWrite): void;
}

export interface Tables extends TableReader {
  /**
   * Makes many reads of one consistent state, at a fraction of their usual cost.
   * @param tables that `work` reads
   * @param work synchronous; its reader and unfinished ranges are invalid after it has returned
   */
  snapshot<Value>(tables: readonly string[], work: (reader: TableReader) => Value): Value;
  /**
   * Reads and writes in one transaction, which is isolated from other writers.
   * @param work synchronous; if it throws, nothing is written
   * @returns the result of `work`, once the writes are as durable as the database guarantees; rejects with the error
   * that `work` threw, or with a store error
   */
  transact<Value>(work: (transaction: TableTransaction) => Value): Promise<Value>;
  close(): Promise<void>;
}
