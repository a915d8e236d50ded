/**
 * The head of a database file, looked at before LMDB maps the file, and the room beside it: over a file that is cut off
 * or none of its own, and on a full disk, LMDB ends the whole process. Any thread.
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

/** A file that must not be mapped; `code` says why, the message names the file. */
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
// records of 48 bytes whose first holds the page size, last page, transaction id). From liblmdb's mdb.c.
const META_MAGIC = 0xbeefc0de;
const META_AT = 24;
const META_PAGE_SIZE_AT = META_AT + 24;
const META_ROOTS_AT = [META_AT + 24 + 40, META_AT + 24 + 48 + 40];
const META_LAST_PAGE_AT = META_PAGE_SIZE_AT + 2 * 48;
const META_TXN_AT = META_LAST_PAGE_AT + 8;
const META_BYTES = META_TXN_AT + 8;

/** How often a file's heads are read while somebody else goes on writing it. */
const HEAD_TRIES = 8;

interface FileHead extends TreeRoots {
  txn: number;
}

/**
 * Looks at a file's two heads before LMDB maps it: reading a page past the end of a cut-off file would end the whole
 * process with a bus error.
 * @returns the number of its last transaction
 * @throws {FileHeadError}
 */
export function checkFileHead(path: string): number {
  let file: number;
  try {
    // A named pipe would keep the thread until somebody writes to it.
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
      // Its writer may have used a page anew meanwhile; what somebody writes to is open, and not cut off.
      if (readNewestHead(file, path).txn === head.txn)
        throw new FileHeadError('truncated', path, `cut off: ${size} bytes of ${needed}`);
      if (tries === HEAD_TRIES) return head.txn;
    }
  } finally {
    closeSync(file);
  }
}

function readNewestHead(file: number, path: string): FileHead {
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
  const second = readHead(first.page_size);
  if (second === null) throw new FileHeadError('truncated', path, 'cut off: the second head is missing');
  return { ...(second.txn > first.txn ? second : first), page_size: first.page_size };
}

/** A file of locks, as LMDB makes it beside a database (126 readers), and some pages. */
const ROOM_BYTES = 16_384;

/**
 * Tries whether there is room for a database that has no file of locks yet. Where there is none, LMDB ends the process
 * with SIGSEGV or SIGBUS instead of saying so.
 * @throws Error with the system's code (ENOSPC, EACCES, …)
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
    throw new Error(`nothing can be written beside it (${why})`, { cause: error });
  } finally {
    rmSync(probe, { force: true });
  }
}
