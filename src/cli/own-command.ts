/**
 * The line with which another program starts a command from any folder. `npx` would find a checkout only from a folder
 * inside it. Main thread.
 */

import { fileURLToPath } from 'node:url';
import { quoteForShell } from '../std/shell-word.ts';

/** Uses the absolute paths of this Node and this copy, so that the command needs no lookup. */
export function renderOwnCommand(words: readonly string[]): string {
  const entry = fileURLToPath(new URL(findEntry(), import.meta.url));
  return [process.execPath, entry, ...words].map(quoteForShell).join(' ');
}

/** Finds the entry file, which is beside this file both in the sources and in the compiled package. */
function findEntry(): string {
  return import.meta.url.endsWith('.ts') ? './understudy.mjs' : '../../../src/cli/understudy.mjs';
}
