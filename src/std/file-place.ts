/**
 * Says what is wrong with a place in the file system, and names the place. The system only says `ENOTDIR` of the whole path,
 * and not which part of it is no folder. Any thread.
 */
import { accessSync, existsSync, constants as fileConstants, statfsSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, resolve } from 'node:path';
import { getSystemErrorMap } from 'node:util';

/**
 * Whether something has that path.
 * @throws Error of the file system where it cannot be seen: it would be told as missing, and may be there
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

/** What was to be done, by the name of the call; opening may be either. */
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
 * Names the place in an error that names none, as those of writes and of LMDB, which tells a number besides words, or words
 * alone. Any other error stays as it is.
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

/** A file system with less is full: what LMDB could not write whole, it has filled. */
const ROOM_BYTES = 64 << 10;

/** LMDB writes some of its pages with every commit. */
const COMMIT_BYTES = 1 << 20;

/**
 * Refuses a transaction of LMDB for which the disk has no room, before it is begun. Not only because it would fail: lmdb 3.5.6
 * words that failure into a buffer that is too small (`last_error` in mdb.c's mdb_page_flush has 100 bytes, and 119 are written),
 * and what lies behind it in memory ends the process some time later.
 * @param bytes that it stores, about
 * @throws Error ENOSPC, as the system's own
 */
export function refuseWithoutRoom(path: string, bytes: number): void {
  let room: number;
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    room = bavail * bsize;
  } catch {
    // The writer gets the reason.
    return;
  }
  if (room >= bytes + COMMIT_BYTES) return;
  const refused = { code: 'ENOSPC', errno: -constants.errno.ENOSPC, syscall: 'write', path };
  throw Object.assign(new Error(`ENOSPC: no space left on device, write '${path}'`), refused);
}

/**
 * Why a folder takes no writes now, without its name; null when it takes some. Asks the system, and writes nothing.
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

/** LMDB calls a write an I/O error when less was taken than it gave, as a disk does that is full by then. */
function hasNoRoom(path: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize < ROOM_BYTES;
  } catch {
    return false;
  }
}

/** What LMDB says of a copy that fails, for which it tells no number. */
const FAILED_COPIES = new Map([
  ['No space left on device', 'ENOSPC'],
  ['Disk quota exceeded', 'EDQUOT'],
  ['File too large', 'EFBIG'],
  ['Input/output error', 'EIO'],
]);

/** @returns the system's name of an error that LMDB tells */
function readSystemCode(code: unknown, words: string): string | undefined {
  if (typeof code === 'number') return getSystemErrorMap().get(-code)?.[0];
  return code === undefined ? FAILED_COPIES.get(words) : undefined;
}

/** Whether it is the code of a place that takes no more. */
export function isFull(code: string | undefined): boolean {
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG';
}

/** @returns what the file system refused and where, without an end; null for any other error */
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
  // Sockets have paths too, and fail in other ways.
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
      return `${path} is where nothing can be written: the file system is read-only`;
    case 'ENAMETOOLONG':
      return `the name ${path} is too long`;
    case 'ELOOP':
      return `${path} leads to itself by symbolic links`;
    default:
      return null;
  }
}

/** The part of the path that is there and no folder; null when it is gone by now. */
function findNoFolder(path: string): string | null {
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      return statSync(at).isDirectory() ? null : at;
    } catch {
      if (dirname(at) === at) return null;
    }
  }
}

/** The topmost part of the path that is missing; null when all is there by now. */
function findMissing(path: string): string | null {
  let missing: string | null = null;
  for (let at = resolve(path); !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing = at;
  return missing;
}
