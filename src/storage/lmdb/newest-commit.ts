/**
 * Opens databases for writing so that each write transaction continues the newest commit. Any thread.
 *
 * The lock file of a database contains the number of its newest commit. From this number each write transaction chooses
 * the snapshot that it changes. But a process that opens the database first reads the newest commit's number in the
 * database, and a moment later writes this number into the lock file (LMDB of lmdb-js, at least up to 3.5.6; OpenLDAP's
 * issue 9496). If a transaction is committed in that moment, the next write transaction continues an older snapshot:
 * the commit is lost, and after several lost commits the file is damaged. So each write transaction first compares its
 * number with the heads of the file, which no other transaction can change meanwhile. A transaction that does not
 * continue the newest commit corrects the lock file, is aborted, and begins again.
 */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  statSync,
  writeSync,
} from 'node:fs';
import { ABORT, open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb';
import { HeadNumbers } from './file-head.ts';

/** Maximum number of times that a transaction begins. Each process that opens the database can cause one repetition. */
const BEGINS = 100;
/**
 * Time from a commit to a check of the lock file, in milliseconds. If a process sets the file's number back after the
 * last commit, readers do not see that commit until the check or the next commit.
 */
const CHECK_MS = 250;

// LMDB's lock file begins with [4 mark][4 format][8 number of the newest commit], little-endian. From liblmdb's mdb.c.
const LOCK_MARK = 0xbeefc0de;
const NUMBER_AT = 8;
const LOCK_HEAD_BYTES = 16;

/** The methods of lmdb-js's databases that run write transactions, or close the database. */
interface Transacting {
  transactionSync(work: () => unknown, flags?: number): unknown;
  childTransaction(work: () => unknown): unknown;
  close(): Promise<void>;
}

type Root = Pick<RootDatabase, 'getWriteTxnId'> & Transacting;

/**
 * Opens a database like lmdb-js's `open`. Every write transaction of `transactionSync` or `childTransaction` continues
 * the newest commit, and so does a `putSync` or `removeSync` outside them. Other methods that write are not checked.
 * @param options `path` names the file; `noSubdir` must be set
 * @throws the errors of lmdb-js; a file system error. A write transaction throws an Error with code EBUSY if the lock
 *   file cannot be corrected: close and open the database again
 */
export function openForWriting<Value, Key extends Buffer | string | number>(
  options: RootDatabaseOptionsWithPath & { path: string },
): RootDatabase<Value, Key> {
  const root = open<Value, Key>(options as RootDatabaseOptionsWithPath) as RootDatabase<Value, Key>;
  try {
    checkTransactions(root as unknown as Root, new NewestCommit(options.path));
  } catch (thrown) {
    void root.close();
    throw thrown;
  }
  return root;
}

/** Replaces the methods by ones that check each outermost transaction. */
function checkTransactions(root: Root, newest: NewestCommit): void {
  // lmdb-js makes a class for each open database. The tables in it are objects of the same class.
  const methods = Object.getPrototypeOf(root) as Transacting;
  const { transactionSync, childTransaction, close } = methods;
  let isWithin = false;
  /** Runs the work in the transaction that has just begun. @returns ABORT with `told.isStale` if it must begin again */
  const runChecked = (work: () => unknown, told: { isStale: boolean }): unknown => {
    told.isStale = !newest.isContinuedBy(root.getWriteTxnId());
    if (told.isStale) return ABORT;
    isWithin = true;
    try {
      return work();
    } finally {
      isWithin = false;
    }
  };
  methods.transactionSync = function (this: Transacting, work, flags) {
    if (isWithin) return transactionSync.call(this, work, flags);
    const told = { isStale: false };
    for (let begins = 1; ; begins++) {
      const result = transactionSync.call(this, () => runChecked(work, told), flags);
      if (!told.isStale) {
        newest.checkLater(root);
        return result;
      }
      newest.refuseAfter(begins);
    }
  };
  methods.childTransaction = function (this: Transacting, work) {
    if (isWithin) return childTransaction.call(this, work);
    return (async () => {
      const told = { isStale: false };
      for (let begins = 1; ; begins++) {
        const result = await childTransaction.call(this, () => runChecked(work, told));
        if (!told.isStale) {
          newest.checkLater(root);
          return result;
        }
        newest.refuseAfter(begins);
      }
    })();
  };
  methods.close = async function (this: Transacting) {
    try {
      await close.call(this);
    } finally {
      if (this === root) newest.close();
    }
  };
}

/** The number of the newest commit, in the database file and in its lock file. */
class NewestCommit {
  readonly #path: string;
  readonly #file: number;
  readonly #heads: HeadNumbers;
  readonly #lock: LockFile;
  #timer: NodeJS.Timeout | null = null;
  #isClosed = false;

  /** @param path of a database that this thread has just opened */
  constructor(path: string) {
    this.#path = path;
    this.#lock = new LockFile(path);
    this.#file = openSync(path, constants.O_RDONLY);
    try {
      this.#heads = new HeadNumbers(this.#file, path);
    } catch (thrown) {
      closeSync(this.#file);
      throw thrown;
    }
  }

  /**
   * Whether a write transaction continues the newest commit. If not, corrects the lock file, and the caller must abort
   * the transaction.
   * @param number of the transaction, which has begun and is the only one
   */
  isContinuedBy(number: number): boolean {
    const newest = this.#heads.readNewest();
    if (number === newest + 1) return true;
    this.#lock.correct(number - 1, newest);
    return false;
  }

  /** @throws Error with code EBUSY if a transaction has begun too often */
  refuseAfter(begins: number): void {
    if (begins < BEGINS) return;
    const words = `${this.#path}-lock does not name the newest commit, and cannot be corrected`;
    throw Object.assign(new Error(words), { code: 'EBUSY' });
  }

  /** Checks the lock file after some time. If it does not name the newest commit, an empty transaction corrects it. */
  checkLater(root: Root): void {
    if (this.#timer !== null || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      if (this.#isClosed) return;
      try {
        const number = this.#lock.read();
        if (number !== null && number !== this.#heads.readNewest()) root.transactionSync(() => undefined);
      } catch {
        // The next write transaction corrects the lock file or reports the error.
      }
    }, CHECK_MS);
    this.#timer.unref();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    closeSync(this.#file);
  }
}

/**
 * LMDB's lock file, through a descriptor that stays open as long as the database. The file must not be closed by this
 * process: closing any descriptor of it would end LMDB's own lock on it, because POSIX locks belong to the process.
 */
class LockFile {
  readonly #inode: bigint | null;
  readonly #file: number | null;

  constructor(path: string) {
    const place = `${path}-lock`;
    this.#inode = statSync(place, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
    this.#file =
      this.#inode === null
        ? null
        : (findOpen(realpathSync(place), this.#inode) ?? keepOpen(place, this.#inode));
  }

  /** The number of the newest commit in the lock file; null if the file is not available. */
  read(): number | null {
    if (this.#file === null) return null;
    const head = Buffer.alloc(LOCK_HEAD_BYTES);
    if (fstatSync(this.#file, { bigint: true }).ino !== this.#inode) return null;
    if (readSync(this.#file, head, 0, LOCK_HEAD_BYTES, 0) < LOCK_HEAD_BYTES) return null;
    return head.readUInt32LE(0) === LOCK_MARK ? Number(head.readBigUInt64LE(NUMBER_AT)) : null;
  }

  /** Sets the number to `newest` if it is still `wrong`. Call it in a write transaction. */
  correct(wrong: number, newest: number): void {
    if (this.read() !== wrong) return;
    const number = Buffer.alloc(8);
    number.writeBigUInt64LE(BigInt(newest));
    writeSync(this.#file!, number, 0, 8, NUMBER_AT);
  }
}

/** LMDB's descriptor of the lock file; null if the system does not list the descriptors of a process. */
function findOpen(place: string, inode: bigint): number | null {
  if (process.platform !== 'linux') return null;
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      if (readlinkSync(`/proc/self/fd/${name}`) !== place) continue;
      if (fstatSync(Number(name), { bigint: true }).ino === inode) return Number(name);
    } catch {
      // The descriptor was closed meanwhile.
    }
  }
  return null;
}

const kept = new Map<bigint, number>();

/** Opens the lock file until the process ends. Databases of one lock file share the descriptor. */
function keepOpen(place: string, inode: bigint): number {
  let file = kept.get(inode);
  if (file === undefined) {
    file = openSync(place, constants.O_RDWR);
    kept.set(inode, file);
  }
  return file;
}
