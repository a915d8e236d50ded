/**
 * What is wrong with a place in the file system, in words that name it: the system's own say `ENOTDIR` of a path that was
 * never named, and not which part of it is no folder. Any thread.
 */
import { existsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

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

/** @returns what the file system refused and where, without an end; null for any other error */
export function describeRefusal(thrown: unknown): string | null {
  if (!(thrown instanceof Error)) return null;
  const { code, syscall = '', path: named, dest } = thrown as NodeJS.ErrnoException & { dest?: string };
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return `no space is left${named === undefined ? '' : ` for ${named}`}`;
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
