/**
 * Overwrites the unused bytes of a database file to which this process alone writes: free pages, the free space of
 * pages in use, and the bytes after a long value on its last page. LMDB leaves removed content there. Unlike
 * page-wipe.ts, it also works while exchanges are stored, because the caller can pause its own writes for a moment.
 *   1. hold a snapshot, so that LMDB does not reuse its pages, and write zeros over the unused bytes of these pages
 *   2. stop the writes for some milliseconds, and write zeros over pages that neither that snapshot nor a later commit
 *     uses
 *   3. sync the file
 * Before step 1, the caller must make sure that both heads of the file and its checkpoint belong to commits after the
 * removal. It must then reopen the file, because LMDB fills the free space of new pages with the former content of its
 * buffers. Step 2 stops the writes for one portion of pages after the other. Before a portion, it waits until no reader
 * has an earlier snapshot open, and fails after a minute.
 * Memory: one byte for each page of the file. Capture process, sealing thread, command line.
 */
import { closeSync, constants, fdatasyncSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { open, type RootDatabase } from 'lmdb';
import { type FileHead, readHeads } from './file-head.ts';
import { listSnapshots } from './snapshots.ts';
import { DamagedTreeError, walkUsedPages } from './used-pages.ts';

/** Duration of a slice of work, and of the pause after it. */
const SLICE_MS = 5;
const PAUSE_MS = 10;
/** How long to wait for readers of earlier snapshots. */
const READERS_MS = 60_000;
const READERS_LOOK_MS = 50;
/** The pages of the two heads. */
const HEAD_PAGES = 2;
/** Number of bytes that are read at once. */
const BYTES_AT_ONCE = 256 << 10;
const ZEROS = Buffer.alloc(BYTES_AT_ONCE);

/** Runs work while nothing is committed to the file, and the file's checkpoint is that of the last commit. */
type Hold = <Value>(work: () => Value) => Promise<Value>;

/** A reader keeps an earlier snapshot open. */
class EarlierReaderError extends Error {
  override readonly name = 'EarlierReaderError';
  readonly code = 'EBUSY';
}

/**
 * Overwrites the unused bytes of a file.
 * @param path of a file that this process has open for writing
 * @param hold stops the writes while the given work runs
 * @throws EarlierReaderError; DamagedTreeError; a file system or LMDB error. The call can be repeated.
 */
export async function wipeUnusedBytes(path: string, hold: Hold): Promise<void> {
  const file = openSync(path, constants.O_RDWR);
  let root: RootDatabase<Buffer, Buffer> | null = null;
  try {
    root = open<Buffer, Buffer>({
      path,
      noSubdir: true,
      encoding: 'binary',
      cache: false,
      overlappingSync: false,
      noSync: true,
    });
    await new UnusedBytes(path, file, root, hold).wipe();
  } finally {
    closeSync(file);
    await root?.close();
  }
}

/**
 * Overwrites the unused bytes within the used pages of a new copy, which must be closed. LMDB copies these bytes with
 * each page. Without this call, the first `wipeUnusedBytes` would write to most pages of the file. Does not sync the
 * file.
 * @param rest called after each slice of work with its duration, ms; lets other work of the thread run
 * @throws a file system error; what `rest` throws. A damaged file keeps its bytes from the damage on.
 */
export async function wipeCopiedPages(path: string, rest: (tookMs: number) => Promise<void>): Promise<void> {
  const file = openSync(path, constants.O_RDWR);
  try {
    let start = performance.now();
    for (const _ of zeroPages(file, readHeads(file, path)[0])) {
      const tookMs = performance.now() - start;
      if (tookMs < SLICE_MS) continue;
      await rest(tookMs);
      start = performance.now();
    }
  } catch (thrown) {
    if (!(thrown instanceof DamagedTreeError)) throw thrown;
  } finally {
    closeSync(file);
  }
}

class UnusedBytes {
  readonly #path: string;
  readonly #file: number;
  /** A separate handle, because other reads on the same handle would share the snapshot. */
  readonly #root: RootDatabase<Buffer, Buffer>;
  readonly #hold: Hold;
  /** For each page: 1 if the snapshot uses it. */
  #used = new Uint8Array(0);

  constructor(path: string, file: number, root: RootDatabase<Buffer, Buffer>, hold: Hold) {
    this.#path = path;
    this.#file = file;
    this.#root = root;
    this.#hold = hold;
  }

  async wipe(): Promise<void> {
    const { snapshot, head } = await this.#hold(() => ({
      snapshot: this.#root.useReadTransaction(),
      head: this.#readHeads()[0],
    }));
    try {
      await this.#wipePages(head);
      for (let from = HEAD_PAGES; from < this.#used.length; ) from = await this.#wipeFree(from, head);
      fdatasyncSync(this.#file);
    } finally {
      snapshot.done();
    }
  }

  /** Overwrites the unused bytes of the snapshot's pages. */
  async #wipePages(head: FileHead): Promise<void> {
    const { page_size } = head;
    this.#used = new Uint8Array(Math.floor(fstatSync(this.#file).size / page_size));
    this.#used.fill(1, 0, HEAD_PAGES);
    let until = performance.now() + SLICE_MS;
    for (const { first, count } of zeroPages(this.#file, head)) {
      this.#used.fill(1, first, first + count);
      if (performance.now() < until) continue;
      await pause(PAUSE_MS);
      until = performance.now() + SLICE_MS;
    }
  }

  /**
   * Overwrites some of the unused pages.
   * @param from number of the first page
   * @returns the page with which to continue
   */
  async #wipeFree(from: number, { page_size, txn }: FileHead): Promise<number> {
    const until = performance.now() + READERS_MS;
    for (;;) {
      const end = await this.#hold(() => {
        const heads = this.#readHeads();
        // The snapshot of this pass is no obstacle, because its pages are not overwritten.
        if (this.#listSnapshots().some((reader) => reader !== txn && reader < heads[1].txn)) return null;
        return this.#zeroFree(from, page_size, this.#findNewPages(heads));
      });
      if (end !== null) {
        await pause(PAUSE_MS);
        return end;
      }
      if (performance.now() > until)
        throw new EarlierReaderError(
          `${this.#path}: another process has been reading an earlier state of the file for ${READERS_MS / 1_000} s`,
        );
      await pause(READERS_LOOK_MS);
    }
  }

  /** Lists the pages that the two heads use and that the snapshot does not. */
  #findNewPages(heads: readonly FileHead[]): ReadonlySet<number> {
    const found = new Set<number>();
    const isNew = (page: number) => this.#used[page] !== 1 && !found.has(page);
    for (const head of heads)
      for (const { first, count } of walkUsedPages(this.#file, head, isNew))
        for (let page = first; page < first + count; page++) found.add(page);
    return found;
  }

  #zeroFree(from: number, pageSize: number, newPages: ReadonlySet<number>): number {
    const buffer = Buffer.alloc(BYTES_AT_ONCE);
    const most = BYTES_AT_ONCE / pageSize;
    const until = performance.now() + SLICE_MS;
    const isFree = (page: number) => this.#used[page] === 0 && !newPages.has(page);
    let at = from;
    while (at < this.#used.length && performance.now() < until) {
      let end = at;
      while (end < this.#used.length && end - at < most && isFree(end)) end++;
      if (end === at) at = this.#nextFree(at, isFree);
      else {
        zero(this.#file, at * pageSize, buffer.subarray(0, (end - at) * pageSize));
        at = end;
      }
    }
    return at;
  }

  #nextFree(from: number, isFree: (page: number) => boolean): number {
    let at = from;
    while (at < this.#used.length && !isFree(at)) at++;
    return at;
  }

  #readHeads(): [FileHead, FileHead] {
    return readHeads(this.#file, this.#path);
  }

  /** Lists the transactions whose snapshots readers of any process have open. */
  #listSnapshots(): number[] {
    this.#root.readerCheck();
    return listSnapshots(this.#root);
  }
}

/** Overwrites the unused bytes of the pages that a head uses, and yields each of these pages afterwards. */
function* zeroPages(file: number, head: FileHead): Generator<{ first: number; count: number }> {
  const { page_size } = head;
  const page = Buffer.alloc(page_size);
  for (const { first, count, unused_from, unused_to } of walkUsedPages(file, head, () => true)) {
    for (let at = unused_from; at < unused_to; at += page_size)
      zero(file, first * page_size + at, page.subarray(0, Math.min(page_size, unused_to - at)));
    yield { first, count };
  }
}

/**
 * Writes zeros, unless the bytes are zeros already. @param buffer receives the present bytes; its length is their
 * number
 */
function zero(file: number, at: number, buffer: Buffer): void {
  const read = readSync(file, buffer, 0, buffer.length, at);
  if (buffer.compare(ZEROS, 0, read, 0, read) === 0) return;
  for (let done = 0; done < read; ) done += writeSync(file, ZEROS, 0, read - done, at + done);
}
