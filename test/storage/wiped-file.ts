/**
 * A database for the tests of page wipes: remaining rows of many sizes between removed rows. For tests, and for
 * processes that tests kill.
 */
import { FINDINGS } from '../../src/domain/finding-rows.ts';
import { writeMark } from '../../src/storage/lmdb/deletion-mark.ts';
import { type Durability, Environment } from '../../src/storage/lmdb/environment.ts';
import { PageWipe, type WipeOutcome } from '../../src/storage/lmdb/page-wipe.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';

export const CANARY = 'zebrawoodcanary4711';
/** Short rows, rows of half a page, and rows of several pages. */
const bytesOf = (n: number) => [20, 700, 1_900, 3_000, 5_000, 17_000][n % 6]! + n;
const kept = (n: number) => `kept ${n} ${'lorem ipsum '.repeat(bytesOf(n) / 12)}`;
const removed = (n: number) => `${CANARY} ${n} `.repeat(bytesOf(n) / 22 + 1);

export class WipedFile {
  readonly path: string;
  readonly #durability: Durability;
  readonly tables: LmdbTables;

  constructor(path: string, durability: Durability) {
    this.path = path;
    this.#durability = durability;
    this.tables = new LmdbTables(path, durability);
  }

  /** Writes rows to keep, to remove and to replace, in turn. Then removes and replaces those rows. */
  async fill(rows: number): Promise<void> {
    await this.tables.transact((tx) => {
      for (let n = 0; n < rows; n++) {
        tx.write({ op: 'put', table: FINDINGS, row: ['kept', n], value: kept(n) });
        tx.write({ op: 'put', table: FINDINGS, row: ['removed', n], value: removed(n) });
        tx.write({ op: 'put', table: FINDINGS, row: ['shorter', n], value: removed(n) });
      }
    });
    for (let from = 0; from < rows; from += 50) {
      await this.tables.transact((tx) => {
        for (let n = from; n < Math.min(from + 50, rows); n++) {
          tx.write({ op: 'remove', table: FINDINGS, row: ['removed', n] });
          tx.write({ op: 'put', table: FINDINGS, row: ['shorter', n], value: kept(n).slice(0, -10) });
        }
      });
    }
  }

  /** The numbers of those rows that do not have the content which `fill` left. */
  wrongRows(rows: number): number[] {
    return Array.from({ length: rows }, (_, n) => n).filter(
      (n) =>
        this.tables.get<string>(FINDINGS, ['kept', n]) !== kept(n) ||
        this.tables.get<string>(FINDINGS, ['shorter', n]) !== kept(n).slice(0, -10),
    );
  }

  async wipe(signal = new AbortController().signal): Promise<WipeOutcome> {
    const environment = Environment.open(this.path, this.#durability);
    await environment.transact(() => writeMark(environment));
    await environment.checkpoint();
    await environment.close();
    const wipe = new PageWipe(this.path, this.#durability, signal);
    try {
      return await wipe.run();
    } finally {
      await wipe.close();
    }
  }
}
