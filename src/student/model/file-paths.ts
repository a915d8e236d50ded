/**
 * Paths of files as texts: a relative path joined with a folder, and an absolute path relative to a folder. No file is
 * read. Pure; teaching proposes rules, and the student's thread applies them.
 */

import { posix, win32 } from 'node:path';

const PATH_CHARACTERS = 1_000;
const WINDOWS = /^[A-Za-z]:[\\/]/;
const LINE_END = /[\n\r\0]/;

/** Whether a text is an absolute path, such as `/srv/app` or `C:\app`. */
export function isAbsolutePath(text: string): boolean {
  if (text.length > PATH_CHARACTERS || LINE_END.test(text)) return false;
  return WINDOWS.test(text) || (text.length > 1 && text.startsWith('/') && !text.startsWith('//'));
}

function systemOf(path: string): typeof posix {
  return WINDOWS.test(path) ? win32 : posix;
}

/**
 * Joins a folder and a relative path. An absolute path stays as it is.
 * @returns undefined if the folder is not absolute, or if the path is empty or leaves the folder
 */
export function joinPath(folder: string, path: string): string | undefined {
  if (isAbsolutePath(path)) return path;
  if (!isAbsolutePath(folder) || path.length > PATH_CHARACTERS || LINE_END.test(path)) return undefined;
  const joined = systemOf(folder).join(folder, path);
  return pathWithin(folder, joined) === undefined ? undefined : joined;
}

/**
 * Makes an absolute path relative to a folder.
 * @returns undefined if one of them is not absolute, or if the path is not within the folder
 */
export function pathWithin(folder: string, path: string): string | undefined {
  if (!isAbsolutePath(folder) || !isAbsolutePath(path)) return undefined;
  const system = systemOf(folder);
  if (system !== systemOf(path)) return undefined;
  const relative = system.relative(folder, path);
  const isOutside = relative === '' || relative.split(system.sep)[0] === '..' || system.isAbsolute(relative);
  return isOutside ? undefined : relative;
}

/** The folders that contain the file or folder with an absolute path, the nearest first, without the root. */
export function listFolders(path: string): string[] {
  const folders: string[] = [];
  const system = systemOf(path);
  for (let at = system.dirname(path); at !== system.dirname(at); at = system.dirname(at)) folders.push(at);
  return folders;
}
