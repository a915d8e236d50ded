/**
 * The stored index of captured runs, in the file `<capture database>.runs`. It has a row for each run, the figures of
 * the newest exchanges, and sums of cache misses and figures, so that runs can be listed without reading all exchanges.
 * The index can always be rebuilt from the captures. So it is removed if it is damaged or belongs to another version,
 * key or capture database. Only the capture reader writes it (threads/capture-reader-entry.ts), never the gateway or
 * the capture process. Any process may read it.
 * To read it, call `RunIndex.open(db, { data_key, version, mode: 'read' })`, which returns null if there is no index of
 * that version. `state` says up to which exchange the index goes, `newest` returns rows starting with the newest run,
 * and `find` returns one run's row. `captures/listed-run.ts` defines the content of a row (`readListedRun`) and the
 * version that the capture reader writes (`indexVersion`).
 * Rows contain the first words of runs and of agents' system prompts. With a data key, rows are encrypted, and run
 * names are hashed with the key. Removing captured exchanges (expiry, erasure) removes the whole index file, because
 * LMDB's free pages keep removed content. A change of the key removes the file, too. Backups omit it. Commits are not
 * synced, so the file may be lost in a power failure. Bound: CAPTURE_LISTED_RUNS rows, CAPTURE_ACTIVITY.exchanges
 * figures and the sums of captures/cache-ledger.ts and captures/figure-cube.ts. Pages of removed rows are reused.
 */
import { createHash } from 'node:crypto';
import { chmodSync, rmSync, statSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { type Database, open, type RootDatabase } from 'lmdb';
import { type DataKey, openDataKey } from '../../std/data-key.ts';
import { refuseWithoutRoom } from '../../std/file-place.ts';
import { checkFileHead, checkRoom } from '../lmdb/file-head.ts';
import { openForWriting } from '../lmdb/newest-commit.ts';
import { checkSealing, type FileSealing, SealedTable, type ValueTable } from '../lmdb/sealed-table.ts';

/** The content of the index is damaged. The index must be removed and rebuilt. */
class RunIndexDamage extends Error {
  override readonly name = 'RunIndexDamage';
}

interface RunIndexOptions {
  /** The key of the captures; null: not encrypted. Secret. */
  data_key: Uint8Array | null;
  /** The version of the row format. An index of another version is not used. */
  version: string;
  /** `write` creates a new index if no usable one exists. */
  mode: 'read' | 'write';
}

interface KeptRow {
  /** The run's first exchange, by which rows are sorted. */
  first_id: number;
  value: Buffer;
}

interface RunIndexChanges {
  state: string;
  runs: readonly (KeptRow & { run_id: string })[];
  gone: readonly { first_id: number; run_id: string }[];
  /** Figures, keyed by the first exchange that they cover. */
  figures: readonly KeptRow[];
  figures_gone: readonly number[];
  /** Sums of cache misses, keyed by the first exchange that they cover. */
  cache: readonly KeptRow[];
  cache_gone: readonly number[];
  /** Sums of figures, keyed by the first exchange that they cover. */
  parts: readonly KeptRow[];
  parts_gone: readonly number[];
}

const STATE = Buffer.from('state');
const VERSION = Buffer.from('version');
const CHECK_BYTES = 4;

export function runIndexPath(db: string): string {
  return `${db}.runs`;
}

/** Lists the files of an index. */
export function listRunIndexFiles(db: string): string[] {
  return [runIndexPath(db), `${runIndexPath(db)}-lock`];
}

/** Removes the index. A process that has the index open notices the removal ({@link RunIndex.isThere}). */
export function removeRunIndex(db: string): void {
  for (const path of listRunIndexFiles(db)) rmSync(path, { force: true });
}

export class RunIndex {
  readonly #path: string;
  readonly #root: RootDatabase<Buffer, Buffer>;
  readonly #meta: ValueTable<Buffer>;
  readonly #runs: ValueTable<number>;
  readonly #figures: ValueTable<number>;
  readonly #cache: ValueTable<number>;
  readonly #parts: ValueTable<number>;
  readonly #names: Database<Buffer, Buffer>;
  readonly #key: DataKey | null;
  readonly #inode: bigint;

  /**
   * Opens the index.
   * @returns null in mode `read` if there is no usable index
   * @throws a storage error, in mode `write`
   */
  static open(db: string, options: RunIndexOptions): RunIndex | null {
    const path = runIndexPath(db);
    try {
      checkFileHead(path);
      const index = new RunIndex(path, options);
      if (index.#meta.get(VERSION)?.toString() === options.version) return index;
      void index.close();
    } catch (thrown) {
      if (options.mode === 'read') return null;
      if (isTrouble(thrown)) throw thrown;
    }
    if (options.mode === 'read') return null;
    removeRunIndex(db);
    checkRoom(path);
    const index = new RunIndex(path, options);
    chmodSync(path, 0o600);
    index.#root.transactionSync(() => index.#meta.putSync(VERSION, Buffer.from(options.version)));
    return index;
  }

  private constructor(path: string, { data_key, mode }: RunIndexOptions) {
    const common = { encoding: 'binary', cache: false } as const;
    this.#path = path;
    this.#key = openDataKey(data_key);
    const isRead = mode === 'read';
    const file = {
      ...common,
      path,
      keyEncoding: 'binary',
      noSubdir: true,
      maxDbs: 8,
      overlappingSync: false,
      noSync: true,
    } as const;
    this.#root = isRead ? open<Buffer, Buffer>({ ...file, readOnly: true }) : openForWriting(file);
    try {
      const sealing = checkSealing(this.#root, path, this.#key);
      const table = <Key extends Buffer | number>(name: string, keyEncoding: 'binary' | 'uint32') => {
        const settings = { ...common, name, keyEncoding } as const;
        // lmdb-js accepts `create` here but does not declare it.
        const opened: Database<Buffer, Key> | undefined = this.#root.openDB<Buffer, Key>(
          isRead ? ({ ...settings, create: false } as typeof settings) : settings,
        );
        if (opened === undefined) throw new RunIndexDamage(`${path}: ${name} is missing`);
        return opened;
      };
      this.#meta = seal(table<Buffer>('meta', 'binary'), 'meta', sealing);
      this.#runs = seal(table<number>('runs', 'uint32'), 'runs', sealing);
      this.#figures = seal(table<number>('figures', 'uint32'), 'figures', sealing);
      this.#cache = seal(table<number>('cache', 'uint32'), 'cache', sealing);
      this.#parts = seal(table<number>('parts', 'uint32'), 'parts', sealing);
      this.#names = table<Buffer>('names', 'binary');
      this.#inode = inodeOf(path) ?? 0n;
    } catch (thrown) {
      void this.#root.close();
      throw thrown;
    }
  }

  /** Whether the file that was opened is still at its path. */
  isThere(): boolean {
    return inodeOf(this.#path) === this.#inode;
  }

  /** The last written {@link RunIndexChanges.state}; null before the first write. */
  get state(): string | null {
    this.#root.resetReadTxn();
    return this.#meta.get(STATE)?.toString() ?? null;
  }

  /**
   * Returns at most `limit` rows of runs that began before an exchange, newest first.
   * @throws RunIndexDamage
   */
  newest(before: number, limit: number): KeptRow[] {
    const rows: KeptRow[] = [];
    for (const { key, value } of this.#runs.getRange({ start: before - 1, reverse: true, limit }))
      rows.push({ first_id: key, value: this.#check(value) });
    return rows;
  }

  /** Finds a run's row; undefined if it does not exist. @throws RunIndexDamage */
  find(runId: string): Buffer | undefined {
    const place = this.#names.get(this.#nameOf(runId));
    if (place === undefined) return undefined;
    const value = this.#read(() => this.#runs.get(place.readUInt32LE()));
    if (value === undefined) throw new RunIndexDamage(`${this.#path}: a row is missing`);
    return this.#check(value);
  }

  /** Returns the figures whose first exchange is `from_id`; undefined if they do not exist. @throws RunIndexDamage */
  figures(from_id: number): Buffer | undefined {
    const value = this.#read(() => this.#figures.get(from_id));
    return value === undefined ? undefined : this.#check(value);
  }

  /** Yields all stored sums of cache misses. @throws RunIndexDamage */
  *cacheParts(): Generator<KeptRow> {
    for (const { key, value } of this.#cache.getRange({})) yield { first_id: key, value: this.#check(value) };
  }

  /** Yields all stored sums of figures. @throws RunIndexDamage */
  *figureParts(): Generator<KeptRow> {
    for (const { key, value } of this.#parts.getRange({})) yield { first_id: key, value: this.#check(value) };
  }

  /** Writes all changes or none. @throws a storage error */
  write(changes: RunIndexChanges): void {
    const { state, runs, gone, figures, figures_gone, cache, cache_gone, parts, parts_gone } = changes;
    refuseWithoutRoom(this.#path, 0);
    this.#root.transactionSync(() => {
      for (const { first_id, run_id } of gone) {
        this.#runs.removeSync(first_id);
        this.#names.removeSync(this.#nameOf(run_id));
      }
      for (const { first_id, run_id, value } of runs) {
        const name = this.#nameOf(run_id);
        if (this.#names.get(name) === undefined) {
          const place = Buffer.allocUnsafe(4);
          place.writeUInt32LE(first_id);
          this.#names.putSync(name, place);
        }
        this.#runs.putSync(first_id, addCheck(value));
      }
      for (const from_id of figures_gone) this.#figures.removeSync(from_id);
      for (const { first_id, value } of figures) this.#figures.putSync(first_id, addCheck(value));
      for (const from_id of cache_gone) this.#cache.removeSync(from_id);
      for (const { first_id, value } of cache) this.#cache.putSync(first_id, addCheck(value));
      for (const from_id of parts_gone) this.#parts.removeSync(from_id);
      for (const { first_id, value } of parts) this.#parts.putSync(first_id, addCheck(value));
      this.#meta.putSync(STATE, Buffer.from(state));
    });
  }

  async close(): Promise<void> {
    await this.#root.close();
  }

  #nameOf(runId: string): Buffer {
    return this.#key === null
      ? createHash('sha256').update(runId).digest().subarray(0, 16)
      : Buffer.from(this.#key.nameOf('captured run', runId), 'hex');
  }

  #check(value: Buffer): Buffer {
    const end = value.length - CHECK_BYTES;
    if (end < 0 || crc32(value.subarray(0, end)) !== value.readUInt32LE(end))
      throw new RunIndexDamage(`${this.#path}: a row is damaged`);
    return value.subarray(0, end);
  }

  #read<Value>(read: () => Value): Value {
    try {
      return read();
    } catch (cause) {
      throw new RunIndexDamage(`${this.#path}: a row cannot be read`, { cause });
    }
  }
}

function seal<Key extends Buffer | number>(
  table: Database<Buffer, Key>,
  name: string,
  sealing: FileSealing | null,
): ValueTable<Key> {
  return sealing === null ? table : new SealedTable(table, name, sealing);
}

function addCheck(value: Buffer): Buffer {
  const whole = Buffer.allocUnsafe(value.length + CHECK_BYTES);
  value.copy(whole);
  whole.writeUInt32LE(crc32(value), value.length);
  return whole;
}

/** Whether the error comes from the disk or the system, so that rebuilding the index would not help. */
function isTrouble(thrown: unknown): boolean {
  return ['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EMFILE'].includes(
    (thrown as NodeJS.ErrnoException).code ?? '',
  );
}

function inodeOf(path: string): bigint | null {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}
