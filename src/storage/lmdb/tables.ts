/**
 * Tables of rows in an LMDB file (see ../tables.ts): each table is a named database, keys as in ../row-key.ts, values
 * as msgpack. Any thread; threads and processes may share a file.
 */
import { Packr } from 'msgpackr';
import type { RowKey, RowWrite } from '../../runtime/protocol.ts';
import { decodeRowKey, encodePrefixEnd, encodeRowKey } from '../row-key.ts';
import type { Row, RowRange, Tables, TableTransaction } from '../tables.ts';
import { type BinaryDatabase, type Durability, Environment } from './environment.ts';

/** Plain msgpack: no structures that another version or thread would have to know. */
const packr = new Packr({ useRecords: false, moreTypes: false, variableMapSize: true });

/** Table names share the file with the journal. */
const TABLE_PREFIX = 'rows:';

export class LmdbTables implements Tables {
  readonly #environment: Environment;

  /**
   * @param path a database of DATA_DIR
   * @throws Error when the file cannot be opened
   */
  constructor(path: string, durability: Durability) {
    this.#environment = Environment.open(path, durability);
  }

  get<Value>(table: string, row: RowKey): Value | undefined {
    const database = this.#fresh(table);
    return decodeValue<Value>(database.get(encodeRowKey(row)));
  }

  range<Value>(table: string, range: RowRange): Iterable<Row<Value>> {
    return readRange<Value>(() => this.#fresh(table), range);
  }

  transact<Value>(work: (transaction: TableTransaction) => Value): Promise<Value> {
    const transaction: TableTransaction = {
      get: <V>(table: string, row: RowKey) =>
        decodeValue<V>(tableOf(this.#environment, table).get(encodeRowKey(row))),
      range: <V>(table: string, range: RowRange) =>
        readRange<V>(() => tableOf(this.#environment, table), range),
      write: (write) => applyRow(this.#environment, encodeRow(write)),
    };
    return this.#environment.transact(() => work(transaction));
  }

  close(): Promise<void> {
    return this.#environment.close();
  }

  /** Reads share one read transaction a turn; a caller expects what another thread committed before it asked. */
  #fresh(table: string): BinaryDatabase {
    const database = tableOf(this.#environment, table);
    database.resetReadTxn();
    return database;
  }
}

/** A write whose parts are bytes already: nothing can fail on the way but the database itself. */
export interface EncodedRow {
  table: string;
  row: Buffer;
  /** null removes; counts are added to what is there. */
  change: Buffer | null | Readonly<Record<string, number>>;
}

/** @throws RangeError for a key, TypeError for a value that cannot be stored */
export function encodeRow(write: RowWrite): EncodedRow {
  const row = encodeRowKey(write.row);
  const { table } = write;
  if (write.op === 'put') return { table, row, change: packr.pack(write.value) };
  return { table, row, change: write.op === 'remove' ? null : write.counts };
}

/**
 * Adds up what a batch counts in one row, so that the row is read and written once. What the batch puts or removes
 * stays as it is, and counts before it and after it stay apart.
 */
export function mergeCounts(rows: readonly EncodedRow[]): readonly EncodedRow[] {
  const counted = new Set<string>();
  let adds = 0;
  for (const { table, change } of rows) {
    if (!isCount(change)) continue;
    counted.add(table);
    adds++;
  }
  if (adds < 2) return rows;
  /** By table and row: what its next counts are added to; null behind a put or a removal. */
  const sums = new Map<string, Record<string, number> | null>();
  const merged: EncodedRow[] = [];
  for (const encoded of rows) {
    const { table, row, change } = encoded;
    if (!counted.has(table)) {
      merged.push(encoded);
      continue;
    }
    const place = `${table}\0${row.toString('latin1')}`;
    if (!isCount(change)) {
      sums.set(place, null);
      merged.push(encoded);
      continue;
    }
    const sum = sums.get(place);
    if (sum == null) {
      const counts = { ...change };
      sums.set(place, counts);
      merged.push({ table, row, change: counts });
    } else {
      for (const [name, by] of Object.entries(change)) sum[name] = (sum[name] ?? 0) + by;
    }
  }
  return merged;
}

function isCount(change: EncodedRow['change']): change is Readonly<Record<string, number>> {
  return change !== null && !Buffer.isBuffer(change);
}

/** Inside a write transaction of the file. */
export function applyRow(environment: Environment, { table, row, change }: EncodedRow): void {
  const database = tableOf(environment, table);
  if (change === null) {
    database.removeSync(row);
  } else if (Buffer.isBuffer(change)) {
    database.putSync(row, change);
  } else {
    const counts = decodeValue<Record<string, number>>(database.get(row)) ?? {};
    for (const name of Object.keys(change)) counts[name] = (counts[name] ?? 0) + change[name]!;
    database.putSync(row, packr.pack(counts));
  }
}

function tableOf(environment: Environment, table: string): BinaryDatabase {
  return environment.named(TABLE_PREFIX + table);
}

function* readRange<Value>(database: () => BinaryDatabase, range: RowRange): Iterable<Row<Value>> {
  const { prefix, after, reverse = false, offset, limit } = range;
  const first = prefix.length === 0 ? Buffer.of(0) : encodeRowKey(prefix);
  const end = encodePrefixEnd(prefix);
  const past = after === undefined ? undefined : encodeRowKey(after);
  const options = reverse
    ? { reverse, start: past ?? end, end: first, exclusiveStart: past !== undefined }
    : { start: past ?? first, end, exclusiveStart: past !== undefined };
  // LMDB counts in 32 bits; nobody has more rows.
  const passed = offset === undefined ? {} : { offset: Math.min(offset, 2 ** 31 - 1) };
  let left = limit ?? Number.POSITIVE_INFINITY;
  if (left <= 0) return;
  for (const { key, value } of database().getRange({ ...options, ...passed })) {
    yield { row: decodeRowKey(key), value: decodeValue<Value>(value)! };
    if (--left <= 0) return;
  }
}

function decodeValue<Value>(bytes: Buffer | undefined): Value | undefined {
  return bytes === undefined ? undefined : (packr.unpack(bytes) as Value);
}
