/**
 * Reads the pages of a file while other processes write to it. Command line.
 * A database is read as of one moment: a read transaction keeps LMDB from reusing the pages of the newest head, and
 * only pages that the trees of that head use are read. All other bytes count as zeros, so a copy contains no deleted
 * content. Other files may change while they are read.
 */
import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { setImmediate as nextTick } from 'node:timers/promises';
import { open, type RootDatabase } from 'lmdb';
import { openDataKey } from '../../std/data-key.ts';
import { chooseKey } from '../capture/layout.ts';
import { copyNewestHead, HEAD_AT, type HeadCopy, readRoots } from '../lmdb/file-head.ts';
import { checkSealing } from '../lmdb/sealed-table.ts';
import { listReads } from '../lmdb/snapshots.ts';
import { checkDatabase } from '../lmdb/stores.ts';
import { walkUsedPages } from '../lmdb/used-pages.ts';

/** Page size of files that are not databases. */
const PLAIN_PAGE_BYTES = 4_096;
const READ_BYTES = 1 << 20;
/** Maximum number of bytes that are read between two turns of the event loop. */
const TURN_BYTES = 4 << 20;
/** The header of a page: its number and flags. */
const HEADER_BYTES = HEAD_AT;

/** Receives a page with its number. @param content at most one page, valid until the next call */
export type EachPage = (page: number, content: Buffer) => Promise<void> | void;

/** The pages of a file; those of a database belong to one snapshot. */
export interface PageSource {
  readonly page_bytes: number;
  /** Length of the file. */
  readonly bytes: number;
  /** Identifies this state of the file; null: changes of the file cannot be noticed. */
  readonly stamp: string | null;
  /** Calls `each` for every page that may have bytes other than zero, once, in any order. */
  read(each: EachPage): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens a snapshot of a database.
 * @param dataKey the key of the database; null: it is not encrypted
 * @throws Error with a one-line message that names the file
 */
export function openDatabasePages(path: string, dataKey: Uint8Array | null): PageSource {
  checkDatabase(path);
  const file = openSync(path, constants.O_RDONLY);
  // A separate handle, because lmdb-js would share the read transaction with other reads of the same handle.
  let root: RootDatabase<Buffer, Buffer> | null = null;
  try {
    root = open<Buffer, Buffer>({
      path,
      noSubdir: true,
      readOnly: true,
      encoding: 'binary',
      keyEncoding: 'binary',
      cache: false,
    });
    const { ino } = fstatSync(file);
    if (statSync(path).ino !== ino) throw new Error(`${path} is being replaced`);
    checkSealing(root, path, openDataKey(chooseKey(root, path, dataKey)));
    const held = root.useReadTransaction() as { done(): void };
    return new DatabasePages(file, root, held, ino, path);
  } catch (thrown) {
    void root?.close();
    closeSync(file);
    throw thrown;
  }
}

class DatabasePages implements PageSource {
  readonly page_bytes: number;
  readonly bytes: number;
  readonly stamp: string;
  readonly #file: number;
  readonly #root: RootDatabase<Buffer, Buffer>;
  readonly #held: { done(): void };
  readonly #head: HeadCopy & { txn: number };
  readonly #path: string;

  /**
   * The caller must open the read transaction before it reads the head, so that the head belongs to the same commit or
   * to a later commit.
   */
  constructor(
    file: number,
    root: RootDatabase<Buffer, Buffer>,
    held: { done(): void },
    inode: number,
    path: string,
  ) {
    this.#path = path;
    this.#file = file;
    this.#root = root;
    this.#held = held;
    const head = copyNewestHead(file);
    this.#head = head;
    this.page_bytes = head.page_size;
    this.bytes = (readRoots(head).last_page + 1) * head.page_size;
    this.stamp = `${inode} ${head.txn}`;
  }

  async read(each: EachPage): Promise<void> {
    const { page_bytes: size } = this;
    for (const page of [0, 1]) await each(page, this.#makeHeadPage(page));
    const buffer = Buffer.alloc(size);
    let turn = 0;
    for (const { first, count, unused_from, unused_to, content } of walkUsedPages(
      this.#file,
      readRoots(this.#head),
      () => true,
    )) {
      for (let i = 0; i < count; i++) {
        const page = content ?? buffer;
        if (content === null) readSync(this.#file, page, 0, size, (first + i) * size);
        // Filling is safe here: the walk reads the page's rows later, and rows are outside of the unused bytes.
        const from = Math.max(unused_from - i * size, 0);
        const to = Math.min(unused_to - i * size, size);
        if (from < to) page.fill(0, from, to);
        await each(first + i, page);
        turn += size;
      }
      if (turn < TURN_BYTES) continue;
      turn = 0;
      await nextTick();
    }
    this.#checkHeld();
  }

  /** Checks that the read transaction is still open. Otherwise pages of the head may have been reused. @throws Error */
  #checkHeld(): void {
    const reads = listReads(this.#root).filter(({ pid }) => pid === process.pid);
    if (reads.some(({ txn }) => txn <= this.#head.txn)) return;
    throw new Error(`${this.#path}: the read transaction ended before the file was read`);
  }

  async close(): Promise<void> {
    this.#held.done();
    closeSync(this.#file);
    await this.#root.close();
  }

  /** Makes a head page. Both heads of the copy are the same, so LMDB may choose either. */
  #makeHeadPage(page: number): Buffer {
    const made = Buffer.alloc(this.page_bytes);
    readSync(this.#file, made, 0, HEADER_BYTES, page * this.page_bytes);
    this.#head.bytes.copy(made, HEAD_AT);
    return made;
  }
}

/** If the last change of a file is older than this, any later write gives the file another modification time. */
const SETTLED_MS = 2_000;

/**
 * Opens a file that is not a database.
 * @param nowMs the time of the wall clock
 * @throws a file system error
 */
export function openPlainPages(path: string, nowMs: number): PageSource {
  const file = openSync(path, constants.O_RDONLY);
  const { size, ino, mtimeNs } = fstatSync(file, { bigint: true });
  const isSettled = Number(mtimeNs / 1_000_000n) + SETTLED_MS < nowMs;
  return {
    page_bytes: PLAIN_PAGE_BYTES,
    bytes: Number(size),
    stamp: isSettled ? `${ino} ${size} ${mtimeNs}` : null,
    read: (each) => readPlain(file, Number(size), each),
    close: async () => closeSync(file),
  };
}

async function readPlain(file: number, bytes: number, each: EachPage): Promise<void> {
  const buffer = Buffer.alloc(Math.min(READ_BYTES, Math.max(bytes, 1)));
  let turn = 0;
  for (let at = 0; at < bytes; ) {
    const read = readSync(file, buffer, 0, Math.min(buffer.length, bytes - at), at);
    // The file became shorter. The rest counts as zeros.
    if (read === 0) return;
    const whole = at + read < bytes ? read - (read % PLAIN_PAGE_BYTES) : read;
    if (whole === 0) return;
    for (let from = 0; from < whole; from += PLAIN_PAGE_BYTES)
      await each(
        (at + from) / PLAIN_PAGE_BYTES,
        buffer.subarray(from, Math.min(from + PLAIN_PAGE_BYTES, whole)),
      );
    at += whole;
    turn += whole;
    if (turn < TURN_BYTES) continue;
    turn = 0;
    await nextTick();
  }
}

/** Presents bytes in memory as the pages of a file. */
export function memoryPages(content: Buffer): PageSource {
  return {
    page_bytes: PLAIN_PAGE_BYTES,
    bytes: content.length,
    stamp: null,
    read: async (each) => {
      for (let at = 0; at < content.length; at += PLAIN_PAGE_BYTES)
        await each(at / PLAIN_PAGE_BYTES, content.subarray(at, at + PLAIN_PAGE_BYTES));
    },
    close: async () => {},
  };
}
