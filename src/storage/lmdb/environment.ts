/**
 * Opens the LMDB files of DATA_DIR, each once per thread. The journal and the tables of a thread share the open file.
 * Any thread.
 * Durability `disk`: a commit is on the disk when its promise resolves. Durability `process`: a commit survives the end
 * of the process, also a kill. After a power failure, such a file returns to its last checkpoint (checkpoint.ts), if
 * one thread makes checkpoints of it (`guard`). Without checkpoints, the file may be lost in a power failure.
 * With a data key, values are encrypted (sealed-table.ts).
 */
import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { ABORT, type Database, type RootDatabase } from 'lmdb';
import { type DataKey, openDataKey } from '../../std/data-key.ts';
import { namePlace, refuseWithoutRoom } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { Checkpoints } from './checkpoint.ts';
import {
  FileReplacedError,
  FileReplacementError,
  readFileNumber,
  refuseReplacement,
} from './file-replacement.ts';
import { openForWriting } from './newest-commit.ts';
import { openCodec, SealedTable, type ValueCodec, type ValueTable } from './sealed-table.ts';

export type Durability = 'disk' | 'process';

export type BinaryDatabase = ValueTable<Buffer>;

/** Prefix of the databases that are tables. */
export const TABLE_PREFIX = 'rows:';
/** Maximum number of named databases in a file, counting tables and the journal. */
export const MAX_NAMED = 128;
/**
 * Address space reserved for a file. It takes no memory, and the file may grow larger. Without it, LMDB would double
 * the map of a growing file repeatedly and keep all earlier maps, so that pages would be counted several times.
 */
const MAP_BYTES = 64 * 2 ** 30;

/** Commits that are acknowledged in a redo log, but not in the database yet. */
export interface Promises {
  /** Writes these commits to the file. @throws a database error; the commits then stay pending */
  settle(): void;
  /** Whether a pending change may affect a row whose key is `stem` followed by `tailBytes` bytes. */
  mayHold(database: string, stem: Buffer, tailBytes: number): boolean;
}

const opened = new Map<string, { environment: Environment; users: number }>();

export class Environment {
  readonly path: string;
  readonly durability: Durability;
  /** This thread's acknowledged commits that are not in the file yet (backlog.ts). */
  promises: Promises | null = null;
  /** Null after close, and while the file is reopened after a failure. */
  #root: RootDatabase<Buffer, Buffer> | null = null;
  readonly #named = new Map<string, BinaryDatabase>();
  /** Databases opened since the last transaction began. LMDB closes their handles if the transaction fails. */
  #openedWithin: string[] = [];
  readonly #key: DataKey | null;
  readonly #isClaimed: boolean;
  /**
   * The inode of the open file. If this process has no claim, another process may replace the file
   * (file-replacement.ts).
   */
  #fileNumber: bigint | null = null;
  #codec: ValueCodec | null = null;
  #reopening: Promise<void> | null = null;
  #isGuarded = false;
  #checkpoints: Checkpoints | null = null;

  /**
   * Opens the file for this thread; creates the file and its folder if missing. If this thread has the file open
   * already, shares it as it was opened, whatever the other arguments say.
   * @param key encrypts its values; null: no encryption
   * @param isClaimed whether this process has the claim on the file (writer-claim.ts), so that no other process
   * replaces it
   * @throws Error if the file cannot be opened, including FileReplacementError; DataKeyError if it does not match the
   *   key
   */
  static open(
    path: string,
    durability: Durability,
    key: Uint8Array | null = null,
    isClaimed = true,
  ): Environment {
    const shared = opened.get(path);
    if (shared !== undefined) {
      shared.users++;
      return shared.environment;
    }
    const environment = new Environment(path, durability, key, isClaimed);
    opened.set(path, { environment, users: 1 });
    return environment;
  }

  private constructor(path: string, durability: Durability, key: Uint8Array | null, isClaimed: boolean) {
    makeFolder(dirname(path));
    this.path = path;
    this.durability = durability;
    this.#key = openDataKey(key);
    this.#isClaimed = isClaimed;
    this.#open();
  }

  /**
   * The open file. Opens the file again if it was closed after a failure.
   * @throws Error after `close`, or if the file cannot be opened
   */
  get root(): RootDatabase<Buffer, Buffer> {
    // The file may have been closed after a failure. A read reopens it at once, because reading needs no disk space.
    if (this.#root === null && this.#isUsed) this.#telling(() => this.#open());
    if (this.#root === null) throw new Error(`${this.path} is not open`);
    return this.#root;
  }

  get #isUsed(): boolean {
    return opened.get(this.path)?.environment === this;
  }

  /** Opens a named database with keys and values as bytes. Creates it if it is missing. */
  named(name: string): BinaryDatabase {
    let database = this.#named.get(name);
    if (database === undefined) {
      const options = { name, encoding: 'binary', keyEncoding: 'binary', cache: false } as const;
      const opened: Database<Buffer, Buffer> = this.#telling(() => this.root.openDB<Buffer, Buffer>(options));
      database = this.#codec === null ? opened : new SealedTable(opened, name, this.#codec, this.path);
      this.#named.set(name, database);
      this.#openedWithin.push(name);
    }
    return database;
  }

  /**
   * Runs one write transaction, which excludes all other writers of any thread or process.
   * @param work synchronous and fast; if it throws, nothing is written
   * @returns the result of `work`, once the transaction is as durable as this file guarantees
   */
  async transact<Value>(work: () => Value): Promise<Value> {
    if (this.#reopening !== null) await this.#reopening;
    else if (this.#root === null) await this.reopen();
    try {
      this.settle();
      return this.isImmediate ? this.transactNow(work) : await this.#transactLater(work);
    } catch (thrown) {
      if (thrown instanceof FileReplacedError) {
        await this.reopen();
        return this.transact(work);
      }
      throw namePlace(await findCause(thrown), this.path);
    }
  }

  /**
   * Checks that the open file is still the one at its path, unless this process has the claim. Call it inside each write
   * transaction.
   * @throws FileReplacementError while the file is being replaced; FileReplacedError if it was replaced
   */
  #checkPlace(): void {
    if (this.#isClaimed) return;
    refuseReplacement(this.path);
    if (readFileNumber(this.path) !== this.#fileNumber) throw new FileReplacedError(this.path);
  }

  async #transactLater<Value>(work: () => Value): Promise<Value> {
    const { root } = this;
    refuseWithoutRoom(this.path, 0);
    const done = root.childTransaction(() => {
      this.#checkPlace();
      return this.#forgetWhenFailed(work);
    });
    // lmdb creates a second promise for the commit in the next phase of the event loop. On a full disk it rejects,
    // and an unhandled rejection ends the thread.
    setImmediate(() => void root.committed.then(ignore, ignore));
    return (await done) as Value;
  }

  /**
   * Like `settle`, before a read that may be slightly out of date. Does not throw: on a full disk, the pending commits
   * stay in the log, and the rows of the file can still be read.
   */
  settleIfPossible(): void {
    try {
      this.settle();
    } catch {
      // The writer gets the error.
    }
  }

  /** Writes this thread's pending commits to the file before a read. @throws a database error */
  settle(): void {
    this.promises?.settle();
  }

  /** Like `settleIfPossible`, before the read of a single row. Writes only if a pending commit may affect the row. */
  settleRow(database: string, key: Buffer): void {
    if (this.promises?.mayHold(database, key, 0)) this.settleIfPossible();
  }

  /**
   * Whether {@link transactNow} can be called. Without a sync, a commit takes microseconds, less than sending it to
   * lmdb-js's writing thread and back.
   */
  get isImmediate(): boolean {
    return this.durability === 'process' && this.#reopening === null && this.#root !== null;
  }

  /**
   * Runs one write transaction and waits for it. Unlike {@link transact}, it does not write pending commits first, and
   * does not check whether the file was replaced. Call it only if {@link isImmediate}, or if the wait for a sync does
   * not matter.
   * @param work synchronous and fast; if it throws, nothing is written
   * @returns the result of `work`
   */
  transactNow<Value>(work: () => Value): Value {
    refuseWithoutRoom(this.path, 0);
    const { root } = this;
    return this.#telling(() => this.#forgetWhenFailed(() => root.transactionSync(work) as Value));
  }

  /**
   * Runs one write transaction and aborts it. `work` can read what it wrote, and the file does not change.
   * @param work synchronous and fast
   */
  tryOut<Value>(work: () => Value): Value {
    const { root } = this;
    let value!: Value;
    this.#telling(() =>
      this.#forgetWhenFailed(() => {
        root.transactionSync(() => {
          value = work();
          return ABORT;
        });
        this.#forgetOpened();
      }),
    );
    return value;
  }

  /** Drops the handles of databases that a failed transaction has opened. The next use opens them again. */
  #forgetWhenFailed<Value>(work: () => Value): Value {
    this.#openedWithin = [];
    try {
      return work();
    } catch (thrown) {
      this.#forgetOpened();
      throw thrown;
    }
  }

  #forgetOpened(): void {
    for (const name of this.#openedWithin) this.#named.delete(name);
  }

  /** Adds the file's path to an error, because LMDB's errors do not contain it. */
  #telling<Value>(work: () => Value): Value {
    try {
      return work();
    } catch (thrown) {
      throw namePlace(thrown, this.path);
    }
  }

  /**
   * Starts to make checkpoints of the file. Only one thread of a process may call it.
   * @throws a file system error
   */
  guard(): void {
    this.#isGuarded = true;
    this.#checkpoints ??= new Checkpoints(this.path);
  }

  /**
   * Makes a checkpoint of all commits so far, if `guard` was called on this thread. @throws a file system error
   */
  async checkpoint(): Promise<void> {
    await this.#reopening;
    await this.#checkpoints?.write();
  }

  /** Closes and reopens the file: LMDB refuses to continue after some errors, such as a failed write of its head. */
  reopen(): Promise<void> {
    this.#reopening ??= this.#reopen().finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  /** Ends one use of the file. Closes the file if this was the last use of it on this thread. */
  async close(): Promise<void> {
    const entry = opened.get(this.path);
    if (entry === undefined || entry.environment !== this) return;
    if (--entry.users > 0) return;
    opened.delete(this.path);
    await this.#reopening;
    const root = this.#root;
    this.#root = null;
    this.#named.clear();
    await this.#dropCheckpoints();
    await root?.close();
  }

  /** Ends the checkpoints, which hold a read transaction of the present handle. */
  async #dropCheckpoints(): Promise<void> {
    const checkpoints = this.#checkpoints;
    this.#checkpoints = null;
    await checkpoints?.close();
  }

  #open(): void {
    if (this.#isClaimed) {
      this.#openFile();
      return;
    }
    refuseReplacement(this.path);
    // LMDB opens its lock file first. The database file must exist before that, and must be the same one afterwards.
    closeSync(openSync(this.path, 'a', 0o600));
    this.#fileNumber = readFileNumber(this.path);
    this.#openFile();
    if (readFileNumber(this.path) === this.#fileNumber) return;
    void this.#root?.close();
    this.#root = null;
    throw new FileReplacementError(`${this.path} has just been replaced: try again`);
  }

  #openFile(): void {
    const root = openForWriting<Buffer, Buffer>({
      path: this.path,
      noSubdir: true,
      maxDbs: MAX_NAMED,
      encoding: 'binary',
      keyEncoding: 'binary',
      cache: false,
      // Off, so that a promise resolves only when the commit is on the disk.
      overlappingSync: false,
      // On systems other than Linux, a map may use disk space for its whole size.
      ...(process.platform === 'linux' ? { mapSize: MAP_BYTES } : {}),
      ...(this.durability === 'process' ? { noSync: true } : {}),
    });
    try {
      this.#codec = openCodec(root, this.path, this.#key);
    } catch (thrown) {
      void root.close();
      throw thrown;
    }
    this.#root = root;
    if (this.#isGuarded) this.#checkpoints = new Checkpoints(this.path);
  }

  async #reopen(): Promise<void> {
    const root = this.#root;
    this.#root = null;
    this.#named.clear();
    try {
      await this.#dropCheckpoints();
      await root?.close();
      if (this.#isUsed && this.#root === null) this.#open();
    } catch {
      // The next transaction or read tries again.
    }
  }
}

function ignore(): void {}

/**
 * lmdb-js rejects failed writes with a general error. Its `commitError` is a promise that rejects with the specific
 * error.
 */
async function findCause(thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof Error) || !('commitError' in thrown)) return thrown;
  return Promise.resolve(thrown.commitError).then(
    () => thrown,
    (cause: unknown) => (cause instanceof Error ? cause : thrown),
  );
}
