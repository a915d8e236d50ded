/**
 * Loads all rows into a view again while reads go on (view.ts). Each row that arrives is compared with the view. Only
 * differences are stored, in a separate LMDB database of the view's file. At the end, one transaction applies them, so
 * a read sees either the former rows or the new ones, never a mixture. Any thread; only the thread that applies changes
 * to the view uses it.
 */
import type { StoredRow } from '../shared/truth.ts';
import { applyChange, type Change, changeBytes, readChanges, writeChange } from './changes.ts';
import { listTables, writeMark } from './deletion-mark.ts';
import type { Environment } from './environment.ts';

/** The database with the differences. The differences of an interrupted load are discarded. */
export const LOADING = 'loading';
/** Maximum number and size of the differences in one value. Beyond either, the next value begins. */
const PIECE_CHANGES = 2_000;
const PIECE_BYTES = 4 << 20;
/** The smallest key of LMDB. */
const FIRST = Buffer.of(0);

type Difference = Extract<Change, { op: 'put' | 'remove' }>;

export class ViewLoad {
  readonly #environment: Environment;
  readonly #seen = new Set<string>();
  #table: string | null = null;
  /** The first key of the table that was not compared yet. */
  #next = FIRST;
  #pieces = 0;
  #changes: Difference[] = [];
  #bytes = 0;

  constructor(environment: Environment) {
    this.#environment = environment;
    ViewLoad.discard(environment);
  }

  /**
   * Removes the stored differences of a load that has ended or was interrupted, and marks the file, because the
   * differences may contain deleted rows.
   */
  static discard(environment: Environment): void {
    if (!listTables(environment.root).includes(LOADING)) return;
    const pieces = environment.named(LOADING);
    for (const key of [...pieces.getKeys({})]) environment.transactNow(() => pieces.removeSync(key));
    // The rows in these differences may have been deleted in the meantime.
    environment.transactNow(() => writeMark(environment));
  }

  /**
   * Compares rows with the view. The rows of a table must come one after the other, in the order of their keys.
   * @throws RangeError if they are out of order; a database error
   */
  add(rows: readonly StoredRow[]): void {
    this.#environment.transactNow(() => {
      for (const { table, key, value } of rows) {
        if (table !== this.#table) this.#turnTo(table);
        if (key.compare(this.#next) < 0) throw new RangeError(`rows of ${table} are out of order`);
        this.#removeUntil(key);
        if (value !== null && !this.#holds(table, key, value))
          this.#keep({ op: 'put', database: table, key, value });
        this.#next = Buffer.concat([key, Buffer.of(0)]);
      }
      this.#store();
    });
  }

  /**
   * Applies all differences.
   * @param own databases that are not loaded
   * @param show called at the end of the transaction that applies the differences
   * @throws a database error
   */
  end(own: ReadonlySet<string>, show: () => void): void {
    const tables = listTables(this.#environment.root).filter((name) => !own.has(name));
    this.#environment.transactNow(() => {
      for (const table of tables) if (!this.#seen.has(table)) this.#turnTo(table);
      this.#removeUntil();
      this.#store();
    });
    this.#environment.transactNow(() => {
      const pieces = this.#environment.named(LOADING);
      for (let piece = 0; piece < this.#pieces; piece++)
        for (const change of readChanges(pieces.get(pieceKey(piece))!))
          applyChange(this.#environment, change);
      show();
    });
    ViewLoad.discard(this.#environment);
  }

  #turnTo(table: string): void {
    if (this.#seen.has(table)) throw new RangeError(`rows of ${table} are out of order`);
    this.#removeUntil();
    this.#table = table;
    this.#seen.add(table);
    this.#next = FIRST;
  }

  /** Records the removal of the view's rows that were not loaded. @param end null: up to the end of the table */
  #removeUntil(end: Buffer | null = null): void {
    if (this.#table === null) return;
    const table = this.#environment.named(this.#table);
    const range = { limit: PIECE_CHANGES, ...(end === null ? {} : { end }) };
    for (let left = PIECE_CHANGES; left === PIECE_CHANGES; ) {
      const keys = [...table.getKeys({ start: this.#next, ...range })];
      for (const key of keys) this.#keep({ op: 'remove', database: this.#table, key });
      left = keys.length;
      if (left > 0) this.#next = Buffer.concat([keys.at(-1)!, Buffer.of(0)]);
    }
  }

  #holds(table: string, key: Buffer, value: Buffer): boolean {
    try {
      return this.#environment.named(table).get(key)?.equals(value) ?? false;
    } catch {
      // A damaged value is replaced.
      return false;
    }
  }

  #keep(change: Difference): void {
    this.#changes.push(change);
    this.#bytes += changeBytes(change);
    if (this.#changes.length === PIECE_CHANGES || this.#bytes >= PIECE_BYTES) this.#store();
  }

  #store(): void {
    if (this.#changes.length === 0) return;
    const piece = Buffer.allocUnsafe(this.#bytes);
    let at = 0;
    for (const change of this.#changes) at = writeChange(change, piece, at);
    this.#environment.named(LOADING).putSync(pieceKey(this.#pieces++), piece);
    this.#changes = [];
    this.#bytes = 0;
  }
}

function pieceKey(piece: number): Buffer {
  const key = Buffer.allocUnsafe(4);
  key.writeUInt32BE(piece);
  return key;
}
