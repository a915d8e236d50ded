/**
 * Checks a database file's head and the free disk space before LMDB maps the file. LMDB crashes the whole process if a
 * file is truncated or is not a database, or if the disk is full. Any thread.
 */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { describeRefusal, isFull } from '../../std/file-place.ts';
import { holdsAllUsedPages, type TreeRoots } from './used-pages.ts';

/** A file that must not be mapped. `code` is the reason; the message contains the path. */
export class FileHeadError extends Error {
  override readonly name = 'FileHeadError';
  readonly code: 'missing' | 'not_a_database' | 'truncated' | 'unreadable';
  /** The message without the file's name. */
  readonly why: string;

  constructor(code: FileHeadError['code'], path: string, why: string, options?: ErrorOptions) {
    super(`${path}: ${why}`, options);
    this.code = code;
    this.why = why;
  }
}

// LMDB's own head: a page header of 24 bytes, then the meta record (magic, version, address, map size, two table
// records of 48 bytes of which the first contains the page size, last page, transaction id). From liblmdb's mdb.c.
const META_MAGIC = 0xbeefc0de;
const META_AT = 24;
const META_PAGE_SIZE_AT = META_AT + 24;
const META_ROOTS_AT = [META_AT + 24 + 40, META_AT + 24 + 48 + 40];
const META_LAST_PAGE_AT = META_PAGE_SIZE_AT + 2 * 48;
const META_TXN_AT = META_LAST_PAGE_AT + 8;
const META_BYTES = META_TXN_AT + 8;
/** Offset of a head on its page, after the page header. */
export const HEAD_AT = META_AT;
/** Bytes of a copied head, including the boot id that lmdb-js adds after the transaction id. */
const COPIED_BYTES = META_BYTES + 8 - META_AT;

/** How many times the heads of a file are read while another process writes to it. */
const HEAD_TRIES = 8;

/** A head of a file (LMDB: meta page), and the number of its transaction. */
export interface FileHead extends TreeRoots {
  txn: number;
}

/**
 * Checks a file's two heads before LMDB maps it. Reading a page past the end of a truncated file would crash the
 * process with a bus error.
 * @returns the number of the file's last transaction
 * @throws {FileHeadError} if the file is missing or cut off, cannot be read, or is not a database
 */
export function checkFileHead(path: string): number {
  let file: number;
  try {
    // Opening a named pipe would block until another process writes to it.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT') throw new FileHeadError('missing', path, 'no such database');
    const why = `cannot be read: ${describeRefusal(error) ?? code}`;
    throw new FileHeadError('unreadable', path, why, { cause: error });
  }
  try {
    if (!fstatSync(file).isFile()) throw new FileHeadError('not_a_database', path, 'not a file');
    for (let tries = 1; ; tries++) {
      const head = readNewestHead(file, path);
      const needed = (head.last_page + 1) * head.page_size;
      const { size } = fstatSync(file);
      if (size >= needed || holdsAllUsedPages(file, head)) return head.txn;
      // A writer may have reused a page in the meantime. In that case the heads have changed, and the file is not
      // truncated.
      if (readNewestHead(file, path).txn === head.txn)
        throw new FileHeadError('truncated', path, `cut off: ${size} bytes of ${needed}`);
      if (tries === HEAD_TRIES) return head.txn;
    }
  } finally {
    closeSync(file);
  }
}

function readNewestHead(file: number, path: string): FileHead {
  return readHeads(file, path)[0];
}

/**
 * Reads both heads of a file. Commits write them alternately.
 * @param file open for reading
 * @returns both heads, the newer one first
 * @throws {FileHeadError} if a head is missing or not one of LMDB; a file system error
 */
export function readHeads(file: number, path: string): [FileHead, FileHead] {
  const bytes = Buffer.alloc(META_BYTES);
  const readHead = (at: number): FileHead | null => {
    if (readSync(file, bytes, 0, META_BYTES, at) < META_BYTES) return null;
    if (bytes.readUInt32LE(META_AT) !== META_MAGIC) return null;
    return {
      page_size: bytes.readUInt32LE(META_PAGE_SIZE_AT),
      last_page: Number(bytes.readBigUInt64LE(META_LAST_PAGE_AT)),
      roots: META_ROOTS_AT.map((at) => bytes.readBigUInt64LE(at)),
      txn: Number(bytes.readBigUInt64LE(META_TXN_AT)),
    };
  };
  const first = readHead(0);
  if (first === null || first.page_size < 512 || first.page_size > 65_536) {
    throw new FileHeadError('not_a_database', path, 'not a database');
  }
  const { page_size } = first;
  const second = readHead(page_size);
  if (second === null) throw new FileHeadError('truncated', path, 'cut off: the second head is missing');
  second.page_size = page_size;
  return second.txn > first.txn ? [second, first] : [first, second];
}

/** Reads only the numbers of the transactions of a file's heads, which takes about 2 µs. */
export class HeadNumbers {
  readonly #file: number;
  readonly #places: [number, number];
  readonly #bytes = Buffer.alloc(8);

  /**
   * @param file open for reading
   * @throws {FileHeadError} if a head is missing or not one of LMDB; a file system error
   */
  constructor(file: number, path: string) {
    this.#file = file;
    this.#places = [META_TXN_AT, readNewestHead(file, path).page_size + META_TXN_AT];
  }

  /** The number of the newest commit. @throws a file system error */
  readNewest(): number {
    return Math.max(this.#read(this.#places[0]), this.#read(this.#places[1]));
  }

  #read(at: number): number {
    readSync(this.#file, this.#bytes, 0, 8, at);
    return Number(this.#bytes.readBigUInt64LE(0));
  }
}

/** The bytes of a head, without the page header. */
export interface HeadCopy {
  page_size: number;
  bytes: Buffer;
}

/** Reads the trees of a copied head. */
export function readRoots({ page_size, bytes }: HeadCopy): TreeRoots {
  return {
    page_size,
    last_page: Number(bytes.readBigUInt64LE(META_LAST_PAGE_AT - META_AT)),
    roots: META_ROOTS_AT.map((at) => bytes.readBigUInt64LE(at - META_AT)),
  };
}

/**
 * Copies the newer of a file's two heads.
 * @param file open for reading; other processes may write to it
 * @returns the copy and its transaction
 * @throws {FileHeadError} if a head is missing or not one of LMDB; Error if the head changed during every attempt; a
 *   file system error
 */
export function copyNewestHead(file: number): HeadCopy & { txn: number } {
  for (let tries = 0; tries < HEAD_TRIES; tries++) {
    const { txn, page_size } = readNewestHead(file, 'the file');
    const at = (txn & 1) * page_size + META_AT;
    const bytes = readBytes(file, at);
    const isSettled = readBytes(file, at).equals(bytes);
    if (isSettled && Number(bytes.readBigUInt64LE(META_TXN_AT - META_AT)) === txn)
      return { bytes, page_size, txn };
  }
  throw new Error('the head of the file changes faster than it can be read');
}

function readBytes(file: number, at: number): Buffer {
  const bytes = Buffer.alloc(COPIED_BYTES);
  readSync(file, bytes, 0, COPIED_BYTES, at);
  return bytes;
}

/** Size of the lock file that LMDB creates beside a database (126 readers), plus some pages. */
const ROOM_BYTES = 16_384;

/**
 * Checks whether the disk has space for a new database and its lock file, unless the lock file exists already. Without
 * enough space, LMDB crashes the process with SIGSEGV or SIGBUS.
 * @throws Error whose message contains the reason, and whose cause is the file system error
 */
export function checkRoom(path: string): void {
  const locks = statSync(`${path}-lock`, { throwIfNoEntry: false });
  if (locks !== undefined && locks.size > 0) return;
  const probe = `${path}.room`;
  try {
    writeFileSync(probe, Buffer.alloc(ROOM_BYTES));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = isFull(code) ? describeRefusal(error) : code;
    throw new Error(`nothing can be written into its folder (${why})`, { cause: error });
  } finally {
    rmSync(probe, { force: true });
  }
}
