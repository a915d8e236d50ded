/**
 * LMDB files of DATA_DIR, each opened once a thread: the journal and the tables of one thread share it.
 * Any thread.
 *
 * `disk`: a commit is on the disk when its promise settles. `process`: it survives the end of the process by any means,
 * and is on the disk a little later; a power cut may cost the last seconds or, in the worst case, the file (the reason
 * why such data has a file of its own).
 *
 * With a data key, values are sealed (sealed-table.ts).
 */
import { dirname } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { type DataKey, openDataKey } from '../../std/data-key.ts';
import { namePlace, refuseWithoutRoom } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { checkSealing, type FileSealing, SealedTable, type ValueTable } from './sealed-table.ts';

export type Durability = 'disk' | 'process';

export type BinaryDatabase = ValueTable<Buffer>;

/** Named databases in a file, tables and journal together. */
const MAX_NAMED = 128;
/**
 * Addresses set aside for a file; not a bound, and no memory. LMDB doubles a map that has become too small and keeps
 * all the earlier ones, so that the pages of a file that grew were counted several times.
 */
const MAP_BYTES = 64 * 2 ** 30;

/** Commits that are promised in a redo log. */
export interface Promises {
  /** Brings them to the file. @throws Error of the file; they stay promised */
  settle(): void;
  /** Whether one may be of rows whose keys are these bytes and `tailBytes` more. */
  mayHold(database: string, stem: Buffer, tailBytes: number): boolean;
}

const opened = new Map<string, { environment: Environment; users: number }>();

export class Environment {
  readonly path: string;
  readonly durability: Durability;
  /** What this thread has promised and not yet brought to the file (backlog.ts). */
  promises: Promises | null = null;
  /** Null after close, and while it is opened again after a failure. */
  #root: RootDatabase<Buffer, Buffer> | null = null;
  readonly #named = new Map<string, BinaryDatabase>();
  readonly #key: DataKey | null;
  #sealing: FileSealing | null = null;
  #reopening: Promise<void> | null = null;

  /**
   * Opens the file for this thread, or shares it; makes it and its folder when they are missing.
   * @param key of its values; null: they are not sealed
   * @throws Error when the file cannot be opened; DataKeyError when it does not go with the key
   */
  static open(path: string, durability: Durability, key: Uint8Array | null = null): Environment {
    const shared = opened.get(path);
    if (shared !== undefined) {
      shared.users++;
      return shared.environment;
    }
    const environment = new Environment(path, durability, key);
    opened.set(path, { environment, users: 1 });
    return environment;
  }

  private constructor(path: string, durability: Durability, key: Uint8Array | null) {
    makeFolder(dirname(path));
    this.path = path;
    this.durability = durability;
    this.#key = openDataKey(key);
    this.#open();
  }

  /** @throws Error when it is not open, and cannot be opened */
  get root(): RootDatabase<Buffer, Buffer> {
    // Who reads while it is closed after a failure must not wait, and need not: reading needs no room.
    if (this.#root === null && this.#isUsed) this.#telling(() => this.#open());
    if (this.#root === null) throw new Error(`${this.path} is not open`);
    return this.#root;
  }

  get #isUsed(): boolean {
    return opened.get(this.path)?.environment === this;
  }

  /** A named database, keys and values as bytes; made when it is missing. */
  named(name: string): BinaryDatabase {
    let database = this.#named.get(name);
    if (database === undefined) {
      const options = { name, encoding: 'binary', keyEncoding: 'binary', cache: false } as const;
      const opened: Database<Buffer, Buffer> = this.#telling(() => this.root.openDB<Buffer, Buffer>(options));
      database = this.#sealing === null ? opened : new SealedTable(opened, name, this.#sealing);
      this.#named.set(name, database);
    }
    return database;
  }

  /**
   * One write transaction, alone: no other writer of any thread or process comes between.
   * @param work synchronous, and quick; when it throws, nothing is written
   * @returns what `work` returned, when the transaction is as durable as this file promises
   */
  async transact<Value>(work: () => Value): Promise<Value> {
    if (this.#reopening !== null) await this.#reopening;
    else if (this.#root === null) await this.reopen();
    try {
      this.settle();
      return this.isImmediate ? this.transactNow(work) : await this.#transactLater(work);
    } catch (thrown) {
      throw namePlace(await findCause(thrown), this.path);
    }
  }

  async #transactLater<Value>(work: () => Value): Promise<Value> {
    const { root } = this;
    refuseWithoutRoom(this.path, 0);
    const done = root.childTransaction(work);
    // lmdb makes one more promise of the commit, in the loop's next phase, and gives it to nobody: of a full disk it would
    // be a rejection that nobody handles, which ends the thread.
    setImmediate(() => void root.committed.then(ignore, ignore));
    return (await done) as Value;
  }

  /**
   * The same before rows are read that may be a moment old, as they are on other threads: what cannot be brought to the file
   * now, on a full disk, stays promised, and what is in the file can be read.
   */
  settleIfPossible(): void {
    try {
      this.settle();
    } catch {
      // The writer gets the error.
    }
  }

  /** Before anything is read: what this thread was promised is there then. @throws Error of the file */
  settle(): void {
    this.promises?.settle();
  }

  /** The same before a single row is read: mostly nothing was promised of it, and the file has it as it is. */
  settleRow(database: string, key: Buffer): void {
    if (this.promises?.mayHold(database, key, 0)) this.settleIfPossible();
  }

  /**
   * Whether {@link transactNow} can be called: without a sync a commit is microseconds, less than the way to the
   * writing thread and back.
   */
  get isImmediate(): boolean {
    return this.durability === 'process' && this.#reopening === null && this.#root !== null;
  }

  /** The same as {@link transact}, done when it returns. */
  transactNow<Value>(work: () => Value): Value {
    refuseWithoutRoom(this.path, 0);
    return this.#telling(() => this.root.transactionSync(work) as Value);
  }

  /** LMDB does not say which file it failed on. */
  #telling<Value>(work: () => Value): Value {
    try {
      return work();
    } catch (thrown) {
      throw namePlace(thrown, this.path);
    }
  }

  /** Closes and opens again: LMDB refuses to go on after some errors, a failed write of its head among them. */
  reopen(): Promise<void> {
    this.#reopening ??= this.#reopen().finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  /** @returns when the file is closed, or at once while somebody else of this thread uses it */
  async close(): Promise<void> {
    const entry = opened.get(this.path);
    if (entry === undefined || entry.environment !== this) return;
    if (--entry.users > 0) return;
    opened.delete(this.path);
    await this.#reopening;
    const root = this.#root;
    this.#root = null;
    this.#named.clear();
    await root?.close();
  }

  #open(): void {
    const root = open<Buffer, Buffer>({
      path: this.path,
      noSubdir: true,
      maxDbs: MAX_NAMED,
      encoding: 'binary',
      keyEncoding: 'binary',
      cache: false,
      // With it on, a settled promise would not mean "on the disk".
      overlappingSync: false,
      // Elsewhere a map may cost what it could hold.
      ...(process.platform === 'linux' ? { mapSize: MAP_BYTES } : {}),
      ...(this.durability === 'process' ? { noSync: true } : {}),
    });
    try {
      this.#sealing = checkSealing(root, this.path, this.#key);
    } catch (thrown) {
      void root.close();
      throw thrown;
    }
    this.#root = root;
  }

  async #reopen(): Promise<void> {
    const root = this.#root;
    this.#root = null;
    this.#named.clear();
    try {
      await root?.close();
      if (this.#isUsed && this.#root === null) this.#open();
    } catch {
      // The next to come tries again; until then nothing can be read.
    }
  }
}

function ignore(): void {}

/** lmdb rejects every write with a general error that holds a promise of the particular one. */
async function findCause(thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof Error) || !('commitError' in thrown)) return thrown;
  return Promise.resolve(thrown.commitError).then(
    () => thrown,
    (cause: unknown) => (cause instanceof Error ? cause : thrown),
  );
}
