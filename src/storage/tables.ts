/**
 * Tables of rows in the databases of DATA_DIR: what actors project from their events, and what is written without an
 * actor (CRUD). Implementations: lmdb/tables.ts and its reference memory/tables.ts. Any thread.
 *
 * Values are plain data as msgpack holds it. Rows come in the order of their keys (row-key.ts).
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
  /** Only keys after this one (before it with `reverse`): where the last page ended. */
  after?: RowKey;
  /** Greatest key first. */
  reverse?: boolean;
  /** Rows passed over first, without being read. */
  offset?: number;
  limit?: number;
}

export interface TableReader {
  /** @returns undefined when there is no such row */
  get<Value = unknown>(table: string, row: RowKey): Value | undefined;
  /** Lazily, as of the moment of the first step. */
  range<Value = unknown>(table: string, range: RowRange): Iterable<Row<Value>>;
}

/** Reads see what the same transaction has written. */
export interface TableTransaction extends TableReader {
  write(write: RowWrite): void;
}

export interface Tables extends TableReader {
  /**
   * Many reads as of one moment, each of which costs a fraction of one by itself.
   * @param tables that `work` reads
   * @param work synchronous; its reader is of no use once it has returned, nor is a range that it has not ended
   */
  snapshot<Value>(tables: readonly string[], work: (reader: TableReader) => Value): Value;
  /**
   * Reads and writes in one transaction, alone: no other writer comes between.
   * @param work synchronous; when it throws, nothing is written
   * @returns what `work` returned, once the writes are as durable as the database promises; rejects with what it threw,
   *   or with an Error of the store
   */
  transact<Value>(work: (transaction: TableTransaction) => Value): Promise<Value>;
  close(): Promise<void>;
}
