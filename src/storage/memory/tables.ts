/**
 * Tables in memory, for tests and the simulator: the reference implementation for ../lmdb/tables.ts. Their
 * MemoryTableDisk outlives an instance. Any thread; each disk belongs to one thread.
 */
import type { RowKey, RowWrite } from '../../runtime/protocol.ts';
import { decodeRowKey, encodePrefixEnd, encodeRowKey } from '../row-key.ts';
import type { Row, RowRange, TableReader, Tables, TableTransaction } from '../tables.ts';

/** Table → key bytes as latin-1 text, which sorts like the bytes → value. */
export type MemoryTableDisk = Map<string, Map<string, unknown>>;

export class MemoryTables implements Tables {
  readonly #disk: MemoryTableDisk;

  constructor(disk: MemoryTableDisk = new Map()) {
    this.#disk = disk;
  }

  get<Value>(table: string, row: RowKey): Value | undefined {
    const value = this.#disk.get(table)?.get(encodeRowKey(row).toString('latin1'));
    return value === undefined ? undefined : (structuredClone(value) as Value);
  }

  *range<Value>(
    table: string,
    { prefix, after, reverse = false, offset = 0, limit }: RowRange,
  ): Iterable<Row<Value>> {
    const first = prefix.length === 0 ? '' : encodeRowKey(prefix).toString('latin1');
    const end = encodePrefixEnd(prefix).toString('latin1');
    const past = after === undefined ? undefined : encodeRowKey(after).toString('latin1');
    const rows = [...(this.#disk.get(table) ?? [])]
      .filter(([key]) => key >= first && key < end)
      .filter(([key]) => past === undefined || (reverse ? key < past : key > past))
      .sort(([a], [b]) => (a < b ? -1 : 1));
    if (reverse) rows.reverse();
    for (const [key, value] of rows.slice(offset, offset + (limit ?? rows.length))) {
      yield { row: decodeRowKey(Buffer.from(key, 'latin1')), value: structuredClone(value) as Value };
    }
  }

  snapshot<Value>(tables: readonly string[], work: (reader: TableReader) => Value): Value {
    const check = (table: string): void => {
      if (!tables.includes(table)) throw new RangeError(`the snapshot has no table ${table}`);
    };
    return work({
      get: (table, row) => {
        check(table);
        return this.get(table, row);
      },
      range: (table, range) => {
        check(table);
        return this.range(table, range);
      },
    });
  }

  async transact<Value>(work: (transaction: TableTransaction) => Value): Promise<Value> {
    const before = new Map([...this.#disk].map(([name, rows]) => [name, new Map(rows)]));
    try {
      return work({
        get: (table, row) => this.get(table, row),
        range: (table, range) => this.range(table, range),
        write: (write) => applyRow(this.#disk, write),
      });
    } catch (thrown) {
      this.#disk.clear();
      for (const [name, rows] of before) this.#disk.set(name, rows);
      throw thrown;
    }
  }

  async close(): Promise<void> {}
}

/** Applies the write to the disk. */
export function applyRow(disk: MemoryTableDisk, write: RowWrite): void {
  let rows = disk.get(write.table);
  if (rows === undefined) {
    rows = new Map();
    disk.set(write.table, rows);
  }
  const key = encodeRowKey(write.row).toString('latin1');
  if (write.op === 'trim') {
    const end = encodePrefixEnd(write.row).toString('latin1');
    const meant = [...rows.keys()].filter((stored) => stored >= key && stored < end).sort();
    for (const stored of meant.slice(0, write.limit)) rows.delete(stored);
  } else if (write.op === 'remove') {
    rows.delete(key);
  } else if (write.op === 'clear') {
    const end = encodeRowKey(write.end).toString('latin1');
    for (const stored of [...rows.keys()]) if (stored >= key && stored < end) rows.delete(stored);
  } else if (write.op === 'put') {
    rows.set(key, structuredClone(write.value));
  } else {
    const counts: Record<string, number> = { ...(rows.get(key) as Record<string, number> | undefined) };
    for (const [name, by] of Object.entries(write.counts)) counts[name] = (counts[name] ?? 0) + by;
    rows.set(key, counts);
  }
}
