/**
 * Overwrites the unused bytes of an open database file: free pages, the free space of pages in use, and the bytes after
 * a long value on its last page. LMDB leaves deleted content there. Main thread, while other threads and processes use
 * the file.
 *   1. read both heads, and mark every page that their trees use
 *   2. write zeros over all other bytes that are not zero, a few at a time, each time in a write transaction that
 *   changes nothing
 *   3. sync the file
 *   4. remove the mark (deletion-mark.ts)
 * Steps 2 and 4 first check, while they hold the writer's lock, that the heads are unchanged and that no reader has an
 * earlier snapshot open. So no readable byte is overwritten, and the mark is removed only if nothing was committed
 * since step 1. If the process is killed at any point, the file keeps all its rows and its mark. The same holds for a
 * power failure, after which the file has the content of one of the two heads, or of a checkpoint, whose pages an open
 * read transaction protects.
 * Each slice of work takes a millisecond, and other work on the event loop runs between slices. Memory: one byte for
 * each page of the file.
 */
import { closeSync, constants, fdatasync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Database, RootDatabase } from 'lmdb';
import { hasMark, openMarks, removeMark } from './deletion-mark.ts';
import type { Durability } from './environment.ts';
import { type FileHead, readHeads } from './file-head.ts';
import { openForWriting } from './newest-commit.ts';
import { listSnapshots } from './snapshots.ts';
import { DamagedTreeError, walkUsedPages } from './used-pages.ts';

/** Duration of a slice of work, and of the pause after it. */
const SLICE_MS = 1;
const PAUSE_MS = 9;
/** Maximum number of bytes and of ranges that are overwritten in one transaction, while the writer's lock is held. */
const BATCH_BYTES = 128 << 10;
const BATCH_RANGES = 32;
/** The pages of the two heads. */
const HEAD_PAGES = 2;
const ZEROS = Buffer.alloc(BATCH_BYTES);

const sync = promisify(fdatasync);

/**
 * The result of a pass. `wiped`: the file has no deleted content. `written`: there was a commit during the pass.
 * `read`: a reader has an earlier snapshot open. `damaged`: the trees cannot be read. `stopped`: the caller stopped the
 * pass.
 */
export type WipeOutcome = 'wiped' | 'written' | 'read' | 'damaged' | 'stopped';

interface Range {
  at: number;
  bytes: number;
}

/** Ends a pass. */
class PassEnd extends Error {
  override readonly name = 'PassEnd';
  readonly outcome: WipeOutcome;

  constructor(outcome: WipeOutcome) {
    super(outcome);
    this.outcome = outcome;
  }
}

export class PageWipe {
  readonly #path: string;
  readonly #signal: AbortSignal;
  /** A separate handle, because other writes on the same handle would share a transaction with the checks. */
  readonly #root: RootDatabase<Buffer, Buffer>;
  readonly #marks: Database<Buffer, Buffer> | null;
  readonly #file: number;
  #heads: [FileHead, FileHead];
  /** For each page: 1 if a head's trees use it. */
  #used: Uint8Array;
  #ranges: Range[] = [];
  #rangeBytes = 0;
  #sliceEnd = 0;
  /** Number of bytes that all passes of this object have overwritten. */
  wiped_bytes = 0;

  /**
   * @param path of a file that this process has open
   * @param signal ends a pass at its next slice
   * @throws a file system or LMDB error
   */
  constructor(path: string, durability: Durability, signal: AbortSignal) {
    this.#path = path;
    this.#signal = signal;
    this.#file = openSync(path, constants.O_RDWR);
    try {
      this.#heads = readHeads(this.#file, path);
      this.#used = new Uint8Array(0);
      this.#root = openForWriting<Buffer, Buffer>({
        path,
        noSubdir: true,
        encoding: 'binary',
        keyEncoding: 'binary',
        cache: false,
        overlappingSync: false,
        ...(durability === 'process' ? { noSync: true } : {}),
      });
      this.#marks = openMarks(this.#root);
    } catch (thrown) {
      closeSync(this.#file);
      throw thrown;
    }
  }

  /** Whether the file may contain deleted content. */
  get isMarked(): boolean {
    return hasMark(this.#marks);
  }

  /**
   * Whether a reader has a snapshot open that is older than the last two. If so, a pass could not overwrite anything.
   */
  get hasEarlierReader(): boolean {
    this.#root.readerCheck();
    const oldest = readHeads(this.#file, this.#path)[1].txn;
    return listSnapshots(this.#root).some((txn) => txn < oldest);
  }

  /**
   * Runs one pass over a marked file. Both heads and the checkpoint, if there is one, must belong to commits after the
   * deletion.
   * @throws a file system or LMDB error
   */
  async run(): Promise<WipeOutcome> {
    this.#heads = readHeads(this.#file, this.#path);
    this.#ranges = [];
    this.#rangeBytes = 0;
    try {
      this.#beginSlice();
      await this.#wipeUsedPages();
      await this.#wipeFreePages();
      await this.#flush();
      await sync(this.#file);
      await this.#transact(() => removeMark(this.#marks!));
      return 'wiped';
    } catch (thrown) {
      if (thrown instanceof PassEnd) return thrown.outcome;
      // Pages that were reused in the meantime also look damaged.
      if (thrown instanceof DamagedTreeError) return this.#isUnchanged() ? 'damaged' : 'written';
      throw thrown;
    }
  }

  async close(): Promise<void> {
    closeSync(this.#file);
    await this.#root.close();
  }

  async #wipeUsedPages(): Promise<void> {
    const { page_size } = this.#heads[0];
    const used = new Uint8Array(this.#countPages());
    this.#used = used;
    used.fill(1, 0, HEAD_PAGES);
    // Most pages belong to the trees of both heads.
    const enters = (page: number) => used[page] === 0;
    const page = Buffer.alloc(page_size);
    for (const head of this.#heads) {
      for (const { first, count, unused_from, unused_to } of walkUsedPages(this.#file, head, enters)) {
        used.fill(1, first, first + count);
        await this.#wipe(first * page_size + unused_from, first * page_size + unused_to, page);
      }
    }
  }

  async #wipeFreePages(): Promise<void> {
    const { page_size } = this.#heads[0];
    const page = Buffer.alloc(page_size);
    const end = this.#countPages();
    for (let number = HEAD_PAGES; number < end; number++) {
      if (this.#used[number] === 1) continue;
      await this.#wipe(number * page_size, (number + 1) * page_size, page);
    }
  }

  #countPages(): number {
    return Math.floor(fstatSync(this.#file).size / this.#heads[0].page_size);
  }

  /**
   * Adds those portions of a range that are not all zeros to the next batch, and overwrites the batch if it is full.
   * @param buffer used to read the bytes
   */
  async #wipe(from: number, to: number, buffer: Buffer): Promise<void> {
    for (let at = from; at < to; ) {
      const bytes = Math.min(to - at, buffer.length);
      const read = readSync(this.#file, buffer, 0, bytes, at);
      if (read === 0) break;
      if (buffer.compare(ZEROS, 0, read, 0, read) !== 0) this.#add(at, read);
      at += read;
    }
    if (this.#rangeBytes > BATCH_BYTES - buffer.length || this.#ranges.length >= BATCH_RANGES)
      await this.#flush();
    if (performance.now() < this.#sliceEnd) return;
    await pause(PAUSE_MS);
    this.#beginSlice();
  }

  #beginSlice(): void {
    if (this.#signal.aborted) throw new PassEnd('stopped');
    if (!this.#isUnchanged()) throw new PassEnd('written');
    this.#sliceEnd = performance.now() + SLICE_MS;
  }

  #add(at: number, bytes: number): void {
    this.#rangeBytes += bytes;
    const last = this.#ranges.at(-1);
    if (last !== undefined && last.at + last.bytes === at) last.bytes += bytes;
    else this.#ranges.push({ at, bytes });
  }

  async #flush(): Promise<void> {
    if (this.#ranges.length === 0) return;
    await this.#transact(() => {
      for (const { at, bytes } of this.#ranges) writeAll(this.#file, at, bytes);
    });
    this.wiped_bytes += this.#rangeBytes;
    this.#ranges = [];
    this.#rangeBytes = 0;
  }

  /**
   * Runs the work while it holds the writer's lock.
   * @throws PassEnd without running the work, if there was a commit since the pass began or an earlier snapshot is open
   */
  async #transact(work: () => void): Promise<void> {
    const done = this.#root.childTransaction((): WipeOutcome | null => {
      if (!this.#isUnchanged()) return 'written';
      if (listSnapshots(this.#root).some((txn) => txn < this.#heads[1].txn)) return 'read';
      work();
      return null;
    });
    // lmdb-js creates a promise of this commit only later, and its unhandled rejection would end the thread.
    setImmediate(() => void this.#root.committed.then(ignore, ignore));
    const end = (await done) as WipeOutcome | null;
    if (end !== null) throw new PassEnd(end);
  }

  #isUnchanged(): boolean {
    const [newest, older] = readHeads(this.#file, this.#path);
    return newest.txn === this.#heads[0].txn && older.txn === this.#heads[1].txn;
  }
}

function writeAll(file: number, at: number, bytes: number): void {
  for (let done = 0; done < bytes; )
    done += writeSync(file, ZEROS, 0, Math.min(bytes - done, ZEROS.length), at + done);
}

function ignore(): void {}
