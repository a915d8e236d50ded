/**
 * Reads and writes the rows of a database of DATA_DIR as plain keys and values, to move them into another store and
 * back. No other process may have the file open. Command line.
 */
import type { StoredRow } from '../shared/truth.ts';
import { listTables } from './deletion-mark.ts';
import { Environment, TABLE_PREFIX } from './environment.ts';
import { JOURNAL, SNAPSHOTS } from './journal.ts';

/** Maximum number of rows that are read or written at a time. */
const ROWS = 1_000;
const BYTES = 4 << 20;

export class RowFile {
  readonly #environment: Environment;

  /**
   * @param key encrypts its values; null: no encryption
   * @throws Error if the file cannot be opened; DataKeyError if it does not match the key
   */
  constructor(path: string, key: Uint8Array | null) {
    this.#environment = Environment.open(path, 'process', key);
  }

  /**
   * Yields the rows of the journal, of the snapshots and of all tables, in portions, table by table, in the order of
   * the keys.
   * @param isMeant selects rows; omitted: all rows
   */
  *read(isMeant: (row: StoredRow) => boolean = () => true): Iterable<StoredRow[]> {
    const tables = listTables(this.#environment.root).filter(
      (name) => name === JOURNAL || name === SNAPSHOTS || name.startsWith(TABLE_PREFIX),
    );
    let portion: StoredRow[] = [];
    let bytes = 0;
    for (const table of tables.sort()) {
      for (const { key, value } of this.#environment.named(table).getRange({})) {
        const row = { table, key: Buffer.from(key), value: Buffer.from(value) };
        if (!isMeant(row)) continue;
        portion.push(row);
        bytes += key.length + value.length;
        if (portion.length < ROWS && bytes < BYTES) continue;
        yield portion;
        portion = [];
        bytes = 0;
      }
    }
    if (portion.length > 0) yield portion;
  }

  /** Writes rows; skips those without a value. The caller syncs the file after `close`. */
  write(rows: readonly StoredRow[]): void {
    this.#environment.transactNow(() => {
      for (const { table, key, value } of rows)
        if (value !== null) this.#environment.named(table).putSync(key, value);
    });
  }

  close(): Promise<void> {
    return this.#environment.close();
  }
}
