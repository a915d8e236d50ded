/**
 * Implements tables (../tables.ts) with an LMDB file. Each table is a named database, with keys as in ../row-key.ts and
 * values as msgpack. Any thread; threads and processes may share a file.
 */
import type { RowKey, RowWrite } from '../../runtime/protocol.ts';
import { isFull } from '../../std/file-place.ts';
import { decodeRowKey, encodePrefixEnd, encodeRowKey } from '../row-key.ts';
import type { Row, RowRange, TableReader, Tables, TableTransaction } from '../tables.ts';
import { applyChange, type Change, packr } from './changes.ts';
import { type BinaryDatabase, type Durability, Environment, TABLE_PREFIX } from './environment.ts';

export class LmdbTables implements Tables {
  readonly #environment: Environment;

  /**
   * @param path a database of DATA_DIR
   * @param key encrypts its values; null: no encryption
   * @param isClaimed whether this process has the claim on the file (writer-claim.ts), so that no other process
   * replaces it
   * @throws Error if the file cannot be opened, including FileReplacementError; DataKeyError if it does not match the
   *   key
   */
  constructor(path: string, durability: Durability, key: Uint8Array | null = null, isClaimed = true) {
    this.#environment = Environment.open(path, durability, key, isClaimed);
  }

  get<Value>(table: string, row: RowKey): Value | undefined {
    const key = encodeRowKey(row);
    this.#environment.settleRow(databaseOf(table), key);
    const database = this.#open(table);
    return database === null ? undefined : decodeValue<Value>(database.get(key));
  }

  range<Value>(table: string, range: RowRange): Iterable<Row<Value>> {
    return readRange<Value>(() => this.#fresh(table), range);
  }

  snapshot<Value>(tables: readonly string[], work: (reader: TableReader) => Value): Value {
    // Opens all databases before the first read, because a read transaction does not see a database that is opened
    // later. The transaction is not reset before `work` returns.
    const databases = new Map(tables.map((table) => [table, this.#fresh(table)]));
    const databaseOf = (table: string): BinaryDatabase | null => {
      const database = databases.get(table);
      if (database === undefined) throw new RangeError(`the snapshot has no table ${table}`);
      return database;
    };
    return work({
      get: <V>(table: string, row: RowKey) => decodeValue<V>(databaseOf(table)?.get(encodeRowKey(row))),
      range: <V>(table: string, range: RowRange) => readRange<V>(() => databaseOf(table), range),
    });
  }

  transact<Value>(work: (transaction: TableTransaction) => Value): Promise<Value> {
    const transaction: TableTransaction = {
      get: <V>(table: string, row: RowKey) =>
        decodeValue<V>(tableOf(this.#environment, table).get(encodeRowKey(row))),
      range: <V>(table: string, range: RowRange) =>
        readRange<V>(() => tableOf(this.#environment, table), range),
      write: (write) => applyChange(this.#environment, encodeRow(write)),
    };
    return this.#environment.transact(() => work(transaction));
  }

  close(): Promise<void> {
    return this.#environment.close();
  }

  #fresh(table: string): BinaryDatabase | null {
    this.#environment.settleIfPossible();
    return this.#open(table);
  }

  /**
   * Opens the database of a table for a read. Resets the read transaction that all reads of a tick share, because a
   * caller expects to see everything that another thread committed before the call.
   * @returns null for a table that does not exist, and therefore is empty, and that cannot be created because the disk
   * is full
   */
  #open(table: string): BinaryDatabase | null {
    let database: BinaryDatabase;
    try {
      database = tableOf(this.#environment, table);
    } catch (thrown) {
      if (isFull((thrown as NodeJS.ErrnoException).code)) return null;
      throw thrown;
    }
    database.resetReadTxn();
    return database;
  }
}

/**
 * Encodes the write of a row.
 * @throws RangeError for an invalid key, TypeError for a value that cannot be stored
 */
export function encodeRow(write: RowWrite): Change {
  const key = encodeRowKey(write.row);
  const database = databaseOf(write.table);
  switch (write.op) {
    case 'put':
      return { op: 'put', database, key, value: packr.pack(write.value) };
    case 'add':
      return { op: 'add', database, key, counts: write.counts };
    case 'remove':
      return { op: 'remove', database, key };
    case 'trim':
      return { op: 'trim', database, key, end: encodePrefixEnd(write.row), limit: write.limit };
    case 'clear':
      return { op: 'clear', database, key, end: encodeRowKey(write.end) };
  }
}

/** Cache: there are few tables, and every step uses them. */
const databases = new Map<string, string>();

export function databaseOf(table: string): string {
  let database = databases.get(table);
  if (database === undefined) {
    database = TABLE_PREFIX + table;
    databases.set(table, database);
  }
  return database;
}

function tableOf(environment: Environment, table: string): BinaryDatabase {
  return environment.named(databaseOf(table));
}

export function* readRange<Value>(
  database: () => BinaryDatabase | null,
  range: RowRange,
): Iterable<Row<Value>> {
  const { prefix, after, reverse = false, offset, limit } = range;
  const first = prefix.length === 0 ? Buffer.of(0) : encodeRowKey(prefix);
  const end = encodePrefixEnd(prefix);
  const past = after === undefined ? undefined : encodeRowKey(after);
  const options = reverse
    ? { reverse, start: past ?? end, end: first, exclusiveStart: past !== undefined }
    : { start: past ?? first, end, exclusiveStart: past !== undefined };
  // LMDB's offset has 32 bits, and tables have fewer rows.
  const passed = offset === undefined ? {} : { offset: Math.min(offset, 2 ** 31 - 1) };
  let left = limit ?? Number.POSITIVE_INFINITY;
  if (left <= 0) return;
  const found = database();
  if (found === null) return;
  for (const { key, value } of found.getRange({ ...options, ...passed })) {
    yield { row: decodeRowKey(key), value: decodeValue<Value>(value)! };
    if (--left <= 0) return;
  }
}

export function decodeValue<Value>(bytes: Buffer | undefined): Value | undefined {
  return bytes === undefined ? undefined : (packr.unpack(bytes) as Value);
}
