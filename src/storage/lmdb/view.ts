/**
 * Implements a view of the shared rows (../shared/view.ts) with an LMDB file. The rows are in the same databases as on
 * a box that does not share rows, so the same code reads both. The database `view` has the mark: up to which change of
 * the shared database the view has the rows.
 * Commits to the file survive the end of the process. After a power failure the file may be damaged, so it is deleted.
 * Any thread; one thread applies changes.
 */
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import type { JournalWrite, StoredActor } from '../../runtime/journal.ts';
import type { RowKey, RowWrite } from '../../runtime/protocol.ts';
import { encodePrefixEnd, encodeRowKey } from '../row-key.ts';
import type { Mark, ReadRange, StoredRow } from '../shared/truth.ts';
import { type Attempt, StaleActorError, type View } from '../shared/view.ts';
import type { Row, RowRange, TableTransaction } from '../tables.ts';
import { applyChange, type Change } from './changes.ts';
import { checkpointPath, readBootId } from './checkpoint.ts';
import { DELETION_MARK, hasMark, listTables, openMarks, writeMark } from './deletion-mark.ts';
import { Environment } from './environment.ts';
import { decodeSnapshot, encodeKey, encodeWrites, JOURNAL, LmdbJournal, SNAPSHOTS } from './journal.ts';
import { SEALING } from './sealed-table.ts';
import { databaseOf, decodeValue, encodeRow, LmdbTables, readRange } from './tables.ts';
import { LOADING, ViewLoad } from './view-load.ts';

const VIEW = 'view';
const MARK = Buffer.from('mark');
/** Tables that remain when everything is loaded again, because they belong to the file. */
const OWN = new Set([VIEW, SEALING, DELETION_MARK, LOADING]);
/**
 * Maximum number of ranges that are recorded for a transaction. Beyond it, the ranges of each table are merged into
 * one.
 */
const MAX_READS = 1_000;

/** The value of the mark. */
interface StoredMark extends Mark {
  /** Identifies the database whose rows these are. */
  identity: string;
  /** Boot id of the machine when the file was written. */
  boot_id: string;
  /** See `View`. */
  history: string;
}

export class LmdbView implements View {
  readonly tables: LmdbTables;
  readonly #journal: LmdbJournal;
  readonly #environment: Environment;
  readonly #identity: string;
  #mark: Mark | null;
  #history: string;
  /** The load in progress; null: no load, or a load that writes directly into the view, which had no useful rows. */
  #load: ViewLoad | null = null;

  /**
   * Opens the view. Deletes the file first if it may be damaged or may contain deleted content.
   * @param identity of the database whose rows it shows
   * @param key encrypts its values; null: no encryption
   * @throws Error if the file cannot be opened; DataKeyError if it does not match the key
   */
  static async open(path: string, identity: string, key: Uint8Array | null = null): Promise<LmdbView> {
    const boot = readBootId();
    const view = new LmdbView(path, identity, key);
    const stored = view.#readMark();
    // Deleted content would stay in unused parts of the file. To load the rows again is acceptable to avoid that.
    const isClean = !hasMark(openMarks(view.#environment.root));
    if (isClean && (stored === null || (stored.boot_id === boot && boot !== ''))) {
      ViewLoad.discard(view.#environment);
      return view;
    }
    await view.close();
    for (const file of [path, `${path}-lock`, checkpointPath(path)]) rmSync(file, { force: true });
    return new LmdbView(path, identity, key);
  }

  /**
   * Opens a view that another thread of this process has opened and applies changes to.
   * @throws Error if the file cannot be opened
   */
  static attach(path: string, identity: string, key: Uint8Array | null = null): LmdbView {
    return new LmdbView(path, identity, key);
  }

  private constructor(path: string, identity: string, key: Uint8Array | null) {
    this.#environment = Environment.open(path, 'process', key);
    this.tables = new LmdbTables(path, 'process', key);
    this.#journal = new LmdbJournal(path, 'process', null, key);
    this.#identity = identity;
    const stored = this.#readMark();
    this.#mark = stored?.identity === identity ? { position: stored.position, token: stored.token } : null;
    this.#history = stored?.history ?? '';
  }

  get mark(): Mark | null {
    return this.#mark;
  }

  get history(): string {
    return this.#history;
  }

  attempt<Value>(work: (transaction: TableTransaction) => Value): Attempt<Value> {
    return this.#record(work);
  }

  attemptWrites(writes: readonly JournalWrite[]): Attempt<void> {
    return this.#record((recorder) => {
      for (const write of writes) recorder.writeJournal(write);
    });
  }

  load(kind: string, key: string): StoredActor {
    return this.#journal.load(kind, key);
  }

  #record<Value>(work: (recorder: Recorder) => Value): Attempt<Value> {
    const recorder = new Recorder(this.#environment);
    let mark: StoredMark | null = null as StoredMark | null;
    const value = this.#environment.tryOut(() => {
      // Another thread may have applied changes.
      mark = this.#readMark();
      return work(recorder);
    });
    const { position: base = 0, history = '' } = mark ?? {};
    return { value, base, history, reads: recorder.reads, writes: recorder.writes };
  }

  apply(rows: readonly StoredRow[], mark: Mark): void {
    this.#environment.transactNow(() => {
      this.#write(rows);
      this.#writeMark(mark, this.#history);
    });
    this.#mark = mark;
  }

  beginLoad(): void {
    this.#load = this.#mark === null ? null : new ViewLoad(this.#environment);
    if (this.#load === null) this.#clear();
  }

  fill(rows: readonly StoredRow[]): void {
    if (this.#load === null) this.#environment.transactNow(() => this.#write(rows));
    else this.#load.add(rows);
  }

  endLoad(mark: Mark, isOtherHistory: boolean): void {
    const history = isOtherHistory ? randomUUID() : this.#history;
    const show = () => this.#writeMark(mark, history);
    if (this.#load === null) this.#environment.transactNow(show);
    else this.#load.end(OWN, show);
    this.#load = null;
    this.#history = history;
    this.#mark = mark;
  }

  async close(): Promise<void> {
    await this.tables.close();
    await this.#journal.close();
    await this.#environment.close();
  }

  #hasRows(table: string): boolean {
    return [...this.#environment.named(table).getKeys({ limit: 1 })].length > 0;
  }

  /** Removes the rows of all shared tables, and the mark of the view if there were such rows. */
  #clear(): void {
    const tables = listTables(this.#environment.root).filter((name) => !OWN.has(name) && this.#hasRows(name));
    // A new file contains no deleted content, so it needs no mark.
    if (tables.length === 0) return;
    // The mark is removed first, so that the view counts as empty if the process ends in between.
    this.#environment.transactNow(() => {
      this.#environment.named(VIEW).removeSync(MARK);
      writeMark(this.#environment);
    });
    for (const name of tables) {
      this.#environment.transactNow(() => {
        const database = this.#environment.named(name);
        for (const key of [...database.getKeys({})]) database.removeSync(key);
      });
    }
  }

  #writeMark(mark: Mark, history: string): void {
    const stored: StoredMark = { ...mark, identity: this.#identity, boot_id: readBootId(), history };
    this.#environment.named(VIEW).putSync(MARK, Buffer.from(JSON.stringify(stored)));
  }

  #write(rows: readonly StoredRow[]): void {
    for (const row of rows) applyChange(this.#environment, changeOf(row));
  }

  #readMark(): StoredMark | null {
    const bytes = this.#environment.named(VIEW).get(MARK);
    return bytes === undefined ? null : (JSON.parse(bytes.toString()) as StoredMark);
  }
}

/** Records what a transaction reads and writes while it runs. */
class Recorder implements TableTransaction {
  readonly #environment: Environment;
  readonly #reads = new Map<string, ReadRange[]>();
  readonly #writes = new Map<string, StoredRow>();
  #readCount = 0;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  get reads(): ReadRange[] {
    return [...this.#reads.values()].flat();
  }

  get writes(): StoredRow[] {
    return [...this.#writes.values()];
  }

  get<Value>(table: string, row: RowKey): Value | undefined {
    return decodeValue<Value>(this.#read(databaseOf(table), encodeRowKey(row)));
  }

  *range<Value>(table: string, range: RowRange): Iterable<Row<Value>> {
    const { prefix, after, reverse = false, limit = Number.POSITIVE_INFINITY } = range;
    if (limit <= 0) return;
    const name = databaseOf(table);
    const first = prefix.length === 0 ? Buffer.of(0) : encodeRowKey(prefix);
    const end = encodePrefixEnd(prefix);
    const past = after === undefined ? null : encodeRowKey(after);
    const start = reverse ? (past ?? end) : past === null ? first : keyAfter(past);
    let last: Buffer | null = null;
    let left = limit;
    let isWhole = false;
    try {
      for (const row of readRange<Value>(() => this.#environment.named(name), range)) {
        last = encodeRowKey(row.row);
        left--;
        yield row;
      }
      isWhole = left > 0;
    } finally {
      const stop = isWhole || last === null ? (reverse ? first : end) : reverse ? last : keyAfter(last);
      this.#noteRead(name, reverse ? stop : start, reverse ? start : stop);
    }
  }

  write(write: RowWrite): void {
    this.#change(encodeRow(write));
  }

  /** Writes to an actor's history. @throws StaleActorError if the history has continued without its writer */
  writeJournal(write: JournalWrite): void {
    if (write.type === 'event') this.#checkNext(write);
    else if (write.type === 'snapshot') this.#checkLast(write);
    for (const change of encodeWrites([write])) this.#change(change);
  }

  #change(change: Change): void {
    const { database: table, key } = change;
    if (change.op === 'put') this.#put({ table, key, value: change.value });
    else if (change.op === 'remove') this.#put({ table, key, value: null });
    else if (change.op === 'add') {
      applyChange(this.#environment, change);
      // The sum depends on the earlier value, so the transaction has read this row.
      this.#noteWrite({ table, key, value: this.#read(table, key)! });
    } else
      this.#remove(table, key, change.end, change.op === 'trim' ? change.limit : Number.POSITIVE_INFINITY);
  }

  #read(table: string, key: Buffer): Buffer | undefined {
    this.#noteRead(table, key, keyAfter(key));
    return this.#environment.named(table).get(key);
  }

  #put(row: StoredRow): void {
    applyChange(this.#environment, changeOf(row));
    this.#noteWrite(row);
  }

  /** Checks that an event follows the last stored one. @throws StaleActorError */
  #checkNext({ kind, key, seq }: Extract<JournalWrite, { type: 'event' }>): void {
    const last = this.#snapshotNumber(kind, key);
    const isNext =
      last === seq - 1 ||
      (last < seq - 1 && this.#read(JOURNAL, encodeKey(kind, key, seq - 1)) !== undefined);
    if (!isNext || this.#read(JOURNAL, encodeKey(kind, key, seq)) !== undefined)
      throw new StaleActorError(kind);
  }

  /** Checks that a snapshot belongs to the last stored event. @throws StaleActorError */
  #checkLast({ kind, key, seq }: Extract<JournalWrite, { type: 'snapshot' }>): void {
    const hasLast =
      this.#snapshotNumber(kind, key) === seq || this.#read(JOURNAL, encodeKey(kind, key, seq)) !== undefined;
    if (!hasLast || this.#read(JOURNAL, encodeKey(kind, key, seq + 1)) !== undefined)
      throw new StaleActorError(kind);
  }

  #snapshotNumber(kind: string, key: string): number {
    const place = encodeKey(kind, key, 0);
    const stored = this.#read(SNAPSHOTS, place) ?? this.#read(JOURNAL, place);
    return stored === undefined ? 0 : decodeSnapshot(stored).seq;
  }

  /**
   * Removes the keys of a range, at most the first `limit` of them. The result depends on the keys in the range, so the
   * range counts as read.
   */
  #remove(table: string, start: Buffer, end: Buffer, limit: number): void {
    const bound = Number.isFinite(limit) ? { limit } : {};
    const keys = [...this.#environment.named(table).getKeys({ start, end, ...bound })];
    this.#noteRead(table, start, keys.length < limit ? end : keyAfter(keys.at(-1)!));
    for (const key of keys) this.#put({ table, key, value: null });
  }

  #noteRead(table: string, first: Buffer, end: Buffer): void {
    const ranges = this.#reads.get(table) ?? [];
    ranges.push({ table, first, end });
    this.#reads.set(table, ranges);
    if (++this.#readCount > MAX_READS) this.#widen();
  }

  #widen(): void {
    for (const [table, ranges] of this.#reads) {
      const first = ranges.map((range) => range.first).reduce((a, b) => (a.compare(b) <= 0 ? a : b));
      const end = ranges.map((range) => range.end).reduce((a, b) => (a.compare(b) >= 0 ? a : b));
      this.#reads.set(table, [{ table, first, end }]);
    }
    this.#readCount = this.#reads.size;
  }

  #noteWrite(row: StoredRow): void {
    this.#writes.set(`${row.table}\0${row.key.toString('latin1')}`, row);
  }
}

function changeOf({ table: database, key, value }: StoredRow): Change {
  return value === null ? { op: 'remove', database, key } : { op: 'put', database, key, value };
}

/** Returns the smallest key that is greater than `key`. */
function keyAfter(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}
