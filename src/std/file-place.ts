/**
 * Describes file system errors with the path that caused them. The system only reports `ENOTDIR` for the whole
 * path, not the part that is not a folder. Any thread.
 */
import { accessSync, existsSync, constants as fileConstants, statfsSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, resolve } from 'node:path';
import { getSystemErrorMap } from 'node:util';

/**
 * Whether the path exists.
 * @throws a file system error if that is unknown: otherwise an existing path could be reported as missing
 */
export function isThere(path: string): boolean {
  try {
    statSync(path);
    return true;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') throw thrown;
    return false;
  }
}

/** The failed action, by the name of the system call. A file may be opened to read or to write. */
const DEEDS: Readonly<Record<string, string>> = {
  mkdir: 'make',
  scandir: 'list',
  unlink: 'remove',
  rmdir: 'remove',
  rm: 'remove',
  rename: 'rename',
  stat: 'look at',
  lstat: 'look at',
  open: 'open',
  copyfile: 'copy',
  link: 'link',
};

/**
 * Adds the path to an error that lacks it, such as errors of writes and of LMDB (which have a number and a text, or
 * only a text). Other errors stay unchanged.
 * @returns the same error
 */
export function namePlace<Thrown>(thrown: Thrown, path: string): Thrown {
  if (!(thrown instanceof Error)) return thrown;
  const { code, syscall, path: named } = thrown as NodeJS.ErrnoException;
  if (named !== undefined) return thrown;
  const known = syscall === undefined ? readSystemCode(code, thrown.message) : code;
  if (known === undefined) return thrown;
  const isShortWrite = known === 'EIO' && syscall === undefined && hasNoRoom(path);
  return Object.assign(thrown, { code: isShortWrite ? 'ENOSPC' : known, path });
}

/** A file system with less free space counts as full: LMDB has filled it with an incomplete write. */
const ROOM_BYTES = 64 << 10;

/**
 * Space that a commit needs in addition to its data, because with every commit LMDB also writes pages for its own data.
 */
const COMMIT_BYTES = 1 << 20;

/**
 * Refuses an LMDB transaction for which the disk has no space, before it begins. Such a transaction would not only
 * fail: lmdb 3.5.6 formats the error into a buffer that is too small (`last_error` in mdb.c's mdb_page_flush has 100
 * bytes, and 119 are written), and the corrupted memory ends the process some time later.
 * @param bytes approximate size of the stored data
 * @throws Error ENOSPC, like the system's own
 */
export function refuseWithoutRoom(path: string, bytes: number): void {
  let room: number;
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    room = bavail * bsize;
  } catch {
    // The write itself reports the reason.
    return;
  }
  if (room >= bytes + COMMIT_BYTES) return;
  const refused = { code: 'ENOSPC', errno: -constants.errno.ENOSPC, syscall: 'write', path };
  throw Object.assign(new Error(`ENOSPC: no space left on device, write '${path}'`), refused);
}

/**
 * Finds why a folder cannot be written now, in words without the folder's name; null if it can. Asks the system, and
 * writes nothing.
 * @param folder of a database
 */
export function findWriteFault(folder: string): string | null {
  try {
    accessSync(folder, fileConstants.W_OK);
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < COMMIT_BYTES ? 'the disk is full' : null;
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    return code === 'EROFS' ? 'the file system is read-only' : 'the folder cannot be written to';
  }
}

/**
 * Whether the file system of the path is full. On a full disk, LMDB reports only an I/O error, because less was written
 * than requested.
 */
function hasNoRoom(path: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize < ROOM_BYTES;
  } catch {
    return false;
  }
}

/** LMDB's messages for a failed copy, for which it gives no number. */
const FAILED_COPIES = new Map([
  ['No space left on device', 'ENOSPC'],
  ['Disk quota exceeded', 'EDQUOT'],
  ['File too large', 'EFBIG'],
  ['Input/output error', 'EIO'],
]);

/** Finds the system's code for an error that LMDB reports; undefined for any other error. */
function readSystemCode(code: unknown, words: string): string | undefined {
  if (typeof code === 'number') return getSystemErrorMap().get(-code)?.[0];
  return code === undefined ? FAILED_COPIES.get(words) : undefined;
}

/** Whether the code means that there is no space. */
export function isFull(code: string | undefined): boolean {
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG';
}

/** Describes what the file system refused and where, without a full stop; null for any other error. */
export function describeRefusal(thrown: unknown): string | null {
  if (!(thrown instanceof Error)) return null;
  const { code, syscall = '', path: named, dest } = thrown as NodeJS.ErrnoException & { dest?: string };
  const written = dest ?? named;
  const forIt = written === undefined ? '' : ` for ${written}`;
  if (code === 'ENOSPC') return `no space is left${forIt}`;
  if (code === 'EDQUOT') return `this user's quota leaves no space${forIt}`;
  if (code === 'EIO')
    return `the disk fails, or is full${written === undefined ? '' : `: ${written} cannot be read or written`}`;
  if (code === 'EFBIG') return `${written ?? 'a file'} may become no larger`;
  // Sockets have paths, too, and fail in other ways.
  if (named === undefined || ['connect', 'listen', 'bind'].includes(syscall)) return null;
  const paths = dest === undefined ? [named] : [named, dest];
  const path = paths.at(-1)!;
  switch (code) {
    case 'ENOTDIR':
      return `${paths.map(findNoFolder).find((found) => found !== null) ?? path} is not a folder`;
    case 'EISDIR':
      return `${path} is a folder, not a file`;
    case 'ENOENT': {
      const missing = paths.map(findMissing).find((found) => found !== null) ?? path;
      return syscall === 'mkdir' ? `nothing can be made in ${dirname(missing)}` : `there is no ${missing}`;
    }
    case 'EACCES':
    case 'EPERM':
      return `this user may not ${DEEDS[syscall] ?? 'use'} ${paths.join(' to ')}`;
    case 'EROFS':
      return `nothing can be written to ${path}: the file system is read-only`;
    case 'ENAMETOOLONG':
      return `the name ${path} is too long`;
    case 'ELOOP':
      return `${path} leads to itself by symbolic links`;
    default:
      return null;
  }
}

/** Finds the part of the path that exists but is not a folder; null if no such part exists any more. */
function findNoFolder(path: string): string | null {
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      return statSync(at).isDirectory() ? null : at;
    } catch {
      if (dirname(at) === at) return null;
    }
  }
}

/** Finds the topmost missing part of the path; null if everything exists now. */
function findMissing(path: string): string | null {
  let missing: string | null = null;
  for (let at = resolve(path); !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing = at;
  return missing;
}
