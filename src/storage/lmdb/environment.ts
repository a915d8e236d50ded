/**
 * LMDB files of DATA_DIR, each opened once a thread: the journal and the tables of one thread share it.
 * Any thread.
 *
 * `disk`: a commit is on the disk when its promise settles. `process`: it survives the end of the process by any means.
 * After a power cut such a file is what it was at its last checkpoint (checkpoint.ts), if one thread keeps checkpoints of
 * it (`guard`); without checkpoints, a power cut may cost the file.
 *
 * With a data key, values are sealed (sealed-table.ts).
 */
import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
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
import { openCodec, SealedTable, type ValueCodec, type ValueTable } from './sealed-table.ts';

export type Durability = 'disk' | 'process';

export type BinaryDatabase = ValueTable<Buffer>;

/** Begins the names of the databases that are tables. */
export const TABLE_PREFIX = 'rows:';
/** Named databases in a file, tables and journal together. */
const MAX_NAMED = 128;
/**
 * Addresses set aside for a file; not a bound, and no memory. LMDB doubles a map that has become too small and keeps
 * all the earlier ones, so that the pages of a file that grew were counted several times.
 */
const MAP_BYTES = 64 * 2 ** 30;

/** Commits that are promised in a redo log. */
export interface Promises {
  /** Writes them to the file. @throws Error of the file; they stay promised */
  settle(): void;
  /** Whether a promised change may touch a row whose key is `stem` and `tailBytes` more. */
  mayHold(database: string, stem: Buffer, tailBytes: number): boolean;
}

const opened = new Map<string, { environment: Environment; users: number }>();

export class Environment {
  readonly path: string;
  readonly durability: Durability;
  /** Commits that this thread has promised and not yet written to the file (backlog.ts). */
  promises: Promises | null = null;
  /** Null after close, and while it is opened again after a failure. */
  #root: RootDatabase<Buffer, Buffer> | null = null;
  readonly #named = new Map<string, BinaryDatabase>();
  /** Names that were opened within the transaction that runs now. LMDB closes their handles when it fails. */
  #openedWithin: string[] = [];
  readonly #key: DataKey | null;
  readonly #isClaimed: boolean;
  /** The file that is open, where this process has no claim: another one may take its place (file-replacement.ts). */
  #fileNumber: bigint | null = null;
  #codec: ValueCodec | null = null;
  #reopening: Promise<void> | null = null;
  #isGuarded = false;
  #checkpoints: Checkpoints | null = null;

  /**
   * Opens the file for this thread, or shares it; makes it and its folder when they are missing.
   * @param key of its values; null: they are not sealed
   * @param isClaimed whether this process has the claim on the file (writer-claim.ts): no other one replaces it then
   * @throws Error when the file cannot be opened, FileReplacementError among them; DataKeyError when it does not go with the key
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

  /** @throws Error when it is not open, and cannot be opened */
  get root(): RootDatabase<Buffer, Buffer> {
    // The file may be closed after a failure. A read opens it again without waiting: reading needs no room on the disk.
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
      database = this.#codec === null ? opened : new SealedTable(opened, name, this.#codec, this.path);
      this.#named.set(name, database);
      this.#openedWithin.push(name);
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
      if (thrown instanceof FileReplacedError) {
        await this.reopen();
        return this.transact(work);
      }
      throw namePlace(await findCause(thrown), this.path);
    }
  }

  /**
   * Inside a write transaction of a process without a claim.
   * @throws FileReplacementError while the file is being replaced; FileReplacedError when it was
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
    // lmdb makes a second promise of the commit in the loop's next phase. On a full disk it rejects, and an unhandled rejection
    // ends the thread.
    setImmediate(() => void root.committed.then(ignore, ignore));
    return (await done) as Value;
  }

  /**
   * The same before a read that may be a moment old, as reads on other threads are. On a full disk the promises stay in the log,
   * and the rows in the file can be read.
   */
  settleIfPossible(): void {
    try {
      this.settle();
    } catch {
      // The writer gets the error.
    }
  }

  /** Writes the promises of this thread to the file, before a read. @throws Error of the file */
  settle(): void {
    this.promises?.settle();
  }

  /** The same before a single row is read. Mostly no promise touches the row, and the file is current. */
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
    const { root } = this;
    return this.#telling(() => this.#forgetWhenFailed(() => root.transactionSync(work) as Value));
  }

  /** Forgets the databases that a failed transaction has opened: the next use opens them again. */
  #forgetWhenFailed<Value>(work: () => Value): Value {
    this.#openedWithin = [];
    try {
      return work();
    } catch (thrown) {
      for (const name of this.#openedWithin) this.#named.delete(name);
      throw thrown;
    }
  }

  /** LMDB does not say which file it failed on. */
  #telling<Value>(work: () => Value): Value {
    try {
      return work();
    } catch (thrown) {
      throw namePlace(thrown, this.path);
    }
  }

  /**
   * Keeps checkpoints of the file from now on; one thread of a process does.
   * @throws Error of the file system
   */
  guard(): void {
    this.#isGuarded = true;
    this.#checkpoints ??= new Checkpoints(this.path);
  }

  /** Makes a checkpoint of all commits so far, where this thread keeps them. @throws Error of the file system */
  async checkpoint(): Promise<void> {
    await this.#reopening;
    await this.#checkpoints?.write();
  }

  /** Closes and opens again: LMDB refuses to go on after some errors, a failed write of its head among them. */
  reopen(): Promise<void> {
    this.#reopening ??= this.#reopen().finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  /** @returns when the file is closed, or at once while another user on this thread has it open */
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

  /** Ends the checkpoints: they hold a read transaction of the present handle. */
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
    // LMDB opens its file of locks first, and then this one: it must be there before, and be the same afterwards.
    closeSync(openSync(this.path, 'a', 0o600));
    this.#fileNumber = readFileNumber(this.path);
    this.#openFile();
    if (readFileNumber(this.path) === this.#fileNumber) return;
    void this.#root?.close();
    this.#root = null;
    throw new FileReplacementError(`${this.path} was written anew at this moment: try again`);
  }

  #openFile(): void {
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

/** lmdb rejects every write with a general error that holds a promise of the particular one. */
async function findCause(thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof Error) || !('commitError' in thrown)) return thrown;
  return Promise.resolve(thrown.commitError).then(
    () => thrown,
    (cause: unknown) => (cause instanceof Error ? cause : thrown),
  );
}
